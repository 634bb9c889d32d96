// Of one row, target's and drafter's probabilities: gathers the tokens by p / q, and sums up each group's masses. That is what closed
// forms take of a vocabulary (engine.theory.gumbel_bounds). Given to mx.fast.metal_kernel exactly as it stands, behind definitions of
// the sizes (engine/rounds/group_kernel.py), which is also where inputs and outputs are told.
//
// One threadgroup per (split, row) works on a contiguous part of the row, in threadgroup memory. Masses are integers and ratios are
// compared as integers, so that no order of threads changes anything.

const uint split = threadgroup_position_in_grid.x;
const uint splits = threadgroups_per_grid.x;
const uint row = threadgroup_position_in_grid.y;
const uint thread_index = thread_position_in_threadgroup.x;
const uint vocabulary = uint(p_shape[1]);

threadgroup metal::atomic_uint target_masses[GROUPS];
threadgroup metal::atomic_uint drafter_masses[GROUPS];
threadgroup metal::atomic_uint least_ratios[GROUPS];
threadgroup metal::atomic_uint most_ratios[GROUPS];
for (uint group = thread_index; group < GROUPS; group += THREADS) {
  metal::atomic_store_explicit(&target_masses[group], 0u, metal::memory_order_relaxed);
  metal::atomic_store_explicit(&drafter_masses[group], 0u, metal::memory_order_relaxed);
  metal::atomic_store_explicit(&least_ratios[group], NO_RATIO, metal::memory_order_relaxed);
  metal::atomic_store_explicit(&most_ratios[group], 0u, metal::memory_order_relaxed);
}
threadgroup_barrier(mem_flags::mem_threadgroup);

const uint share = (vocabulary + splits - 1u) / splits;
const uint end = metal::min((split + 1u) * share, vocabulary);
const uint offset = row * vocabulary;
for (uint token = split * share + thread_index; token < end; token += THREADS) {
  const float target = p[offset + token];
  const float drafter = q[offset + token];
  const uint target_mass = uint(target * MASSES + 0.5f);
  const uint drafter_mass = uint(drafter * MASSES + 0.5f);
  // Most of a large vocabulary, and all that filters have dropped, weighs nothing.
  if (target_mass == 0u && drafter_mass == 0u) {
    continue;
  }
  const uint ratio = as_type<uint>((target + NO_MASS) / (drafter + NO_MASS));
  const uint group = metal::min(metal::max(ratio >> DROPPED_BITS, FIRST_GROUP), LAST_GROUP) - FIRST_GROUP;
  metal::atomic_fetch_add_explicit(&target_masses[group], target_mass, metal::memory_order_relaxed);
  metal::atomic_fetch_add_explicit(&drafter_masses[group], drafter_mass, metal::memory_order_relaxed);
  metal::atomic_fetch_min_explicit(&least_ratios[group], ratio, metal::memory_order_relaxed);
  metal::atomic_fetch_max_explicit(&most_ratios[group], ratio, metal::memory_order_relaxed);
}
threadgroup_barrier(mem_flags::mem_threadgroup);

const uint first = (row * splits + split) * GROUPS;
for (uint group = thread_index; group < GROUPS; group += THREADS) {
  p_masses[first + group] = metal::atomic_load_explicit(&target_masses[group], metal::memory_order_relaxed);
  q_masses[first + group] = metal::atomic_load_explicit(&drafter_masses[group], metal::memory_order_relaxed);
  least[first + group] = metal::atomic_load_explicit(&least_ratios[group], metal::memory_order_relaxed);
  most[first + group] = metal::atomic_load_explicit(&most_ratios[group], metal::memory_order_relaxed);
}
