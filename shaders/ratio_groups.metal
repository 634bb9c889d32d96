// Sums up the probabilities of one row, target's and drafter's, in groups of tokens by p / q: what closed forms take of a vocabulary
// (engine.theory.gumbel_bounds). Given to mx.fast.metal_kernel exactly as it stands, behind definitions of the sizes
// (engine/rounds/group_kernel.py), which is also where its inputs and outputs are told.
//
// One threadgroup per (split, row) adds a contiguous part of the row in threadgroup memory. Masses are integers, so that no order
// of threads changes a sum. A quotient that a GPU rounds otherwise may put a token beside the border of its group, which moves the
// bounds by no more than that rounding.

const uint split = threadgroup_position_in_grid.x;
const uint splits = threadgroups_per_grid.x;
const uint row = threadgroup_position_in_grid.y;
const uint thread_index = thread_position_in_threadgroup.x;
const uint vocabulary = uint(p_shape[1]);

// The target's groups, then the drafter's.
threadgroup metal::atomic_uint held[2u * GROUPS];
for (uint place = thread_index; place < 2u * GROUPS; place += GROUP_THREADS) {
  metal::atomic_store_explicit(&held[place], 0u, metal::memory_order_relaxed);
}
threadgroup_barrier(mem_flags::mem_threadgroup);

const uint share = (vocabulary + splits - 1u) / splits;
const uint end = metal::min((split + 1u) * share, vocabulary);
const uint offset = row * vocabulary;
for (uint token = split * share + thread_index; token < end; token += GROUP_THREADS) {
  const float target = p[offset + token];
  const float drafter = q[offset + token];
  // Most of a large vocabulary, and all that filters have dropped, weighs nothing.
  const uint target_mass = uint(target * MASSES + 0.5f);
  const uint drafter_mass = uint(drafter * MASSES + 0.5f);
  if (target_mass == 0u && drafter_mass == 0u) {
    continue;
  }
  const uint ratio = as_type<uint>((target + NO_MASS) / (drafter + NO_MASS)) >> DROPPED_BITS;
  const uint group = metal::min(metal::max(ratio, FIRST_GROUP), LAST_GROUP) - FIRST_GROUP;
  metal::atomic_fetch_add_explicit(&held[group], target_mass, metal::memory_order_relaxed);
  metal::atomic_fetch_add_explicit(&held[GROUPS + group], drafter_mass, metal::memory_order_relaxed);
}
threadgroup_barrier(mem_flags::mem_threadgroup);

const uint first = (row * splits + split) * 2u * GROUPS;
for (uint place = thread_index; place < 2u * GROUPS; place += GROUP_THREADS) {
  masses[first + place] = metal::atomic_load_explicit(&held[place], metal::memory_order_relaxed);
}
