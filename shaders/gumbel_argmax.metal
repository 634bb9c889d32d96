// Draws one token per row from softmax(logits / temperature): the arg-max of logit / T + Gumbel noise, hashed from the row's
// key and a shipped integer table. Noise is made in registers and never reaches memory.
//
// The file is cut at the lines that start with four slashes and "section"; what comes before the first is for readers. The header
// and the two bodies are given to mx.fast.metal_kernel exactly as they stand (engine/noise/kernel.py). MLX writes the signatures:
// it declares an input's shape and the thread's indices when their names occur in a body, comments included, and passes an input of
// fewer than eight elements in `constant` memory, so only bodies may touch inputs other than the table.
//
// Results must equal engine/noise/reference.py to the bit: the product and the sum are rounded separately (no contraction), equal
// scores go to the lowest id, NaN never wins, and a row whose best score is not finite yields -1. A GPU may flush subnormal products
// to zero; beside noise of a multiple of 2^-19 that changes no sum but one with noise of exactly 0.

//// section: header

#pragma METAL fp contract(off)

// Threads of a threadgroup in `splits`. Every supported GPU runs 32 to a simdgroup and at least 256 to a threadgroup.
#define GUMBEL_THREADS 256u
#define GUMBEL_SIMDGROUPS 8u

// The best score of some tokens, the lowest id that has it, and the best score of the others.
struct GumbelBest {
  float score;
  float second;
  uint id;
};

inline uint2 threefry_mix(uint2 x, uint rotation) {
  x.x += x.y;
  x.y = ((x.y << rotation) | (x.y >> (32u - rotation))) ^ x.x;
  return x;
}

// Threefry2x32-20 (Salmon et al., SC 2011).
inline uint2 threefry(uint2 key, uint2 counter) {
  const uint third = key.x ^ key.y ^ 0x1BD11BDAu;
  uint2 x = uint2(counter.x + key.x, counter.y + key.y);
  x = threefry_mix(threefry_mix(threefry_mix(threefry_mix(x, 13u), 15u), 26u), 6u);
  x = uint2(x.x + key.y, x.y + third + 1u);
  x = threefry_mix(threefry_mix(threefry_mix(threefry_mix(x, 17u), 29u), 16u), 24u);
  x = uint2(x.x + third, x.y + key.x + 2u);
  x = threefry_mix(threefry_mix(threefry_mix(threefry_mix(x, 13u), 15u), 26u), 6u);
  x = uint2(x.x + key.x, x.y + key.y + 3u);
  x = threefry_mix(threefry_mix(threefry_mix(threefry_mix(x, 17u), 29u), 16u), 24u);
  x = uint2(x.x + key.y, x.y + third + 4u);
  x = threefry_mix(threefry_mix(threefry_mix(threefry_mix(x, 13u), 15u), 26u), 6u);
  return uint2(x.x + third, x.y + key.x + 5u);
}

// The Gumbel value of a word in units of 2^-19; the table's layout is told in shaders/make_gumbel_table.py.
inline int gumbel_units(uint word, const device int* table) {
  const bool upper = word >= 0x80000000u;
  const uint distance = upper ? ~word : word;
  // Dropping the bit below the 24 that a float keeps (and some lower ones) makes the conversion cut instead of round.
  const uint kept = distance & ~(distance >> 24u);
  // A distance of 0 has no leading bit and is read as 511/512, the node below that of distance 1.
  const uint bits = as_type<uint>(metal::max(float(kept), 511.0f / 512.0f));
  const uint node = (bits >> 15u) - (126u << 8u);
  const int fraction = int((bits >> 3u) & 4095u);
  const int value = table[upper ? 16384u - node : node];
  const int next = table[upper ? 16383u - node : node + 1u];
  return value + (((next - value) * fraction + 2048) >> 12);
}

// One token's score. The units are below 2^24, so their product with a power of two is exact.
inline float gumbel_score(float logit, float inverse_temperature, int units) {
  const float tempered = logit * inverse_temperature;
  const float noise = float(units) * (1.0f / 524288.0f);
  return tempered + noise;
}

inline GumbelBest gumbel_nothing() {
  GumbelBest nothing;
  nothing.score = -INFINITY;
  nothing.second = -INFINITY;
  nothing.id = 0xFFFFFFFFu;
  return nothing;
}

// Both of two disjoint sets of tokens.
inline GumbelBest gumbel_better(GumbelBest a, GumbelBest b) {
  const bool other = b.score > a.score || (b.score == a.score && b.id < a.id);
  GumbelBest best;
  best.score = other ? b.score : a.score;
  best.id = other ? b.id : a.id;
  best.second = metal::max(other ? a.score : b.score, metal::max(a.second, b.second));
  return best;
}

// One more token. Every comparison with a score that is not a number is false, so such a token is left out.
inline GumbelBest gumbel_consider(GumbelBest best, float score, uint id) {
  GumbelBest one = gumbel_nothing();
  one.score = score;
  one.id = id;
  return gumbel_better(best, one);
}

// The best of a simdgroup's 32 lanes, in every lane.
inline GumbelBest gumbel_simd_best(GumbelBest best) {
  for (uint distance = 16u; distance > 0u; distance /= 2u) {
    GumbelBest other;
    other.score = metal::simd_shuffle_xor(best.score, ushort(distance));
    other.second = metal::simd_shuffle_xor(best.second, ushort(distance));
    other.id = metal::simd_shuffle_xor(best.id, ushort(distance));
    best = gumbel_better(best, other);
  }
  return best;
}

//// section: splits

// One threadgroup per (split, row): the best of a contiguous part of the row's token pairs. Tokens 2 i and 2 i + 1 share a hash.
// stream: seed (high, low), domain, whether the first position of the round counts, that position.
const uint split = threadgroup_position_in_grid.x;
const uint splits = threadgroups_per_grid.x;
const uint row = threadgroup_position_in_grid.y;
const uint thread_index = thread_position_in_threadgroup.x;
const uint vocabulary = uint(logits_shape[1]);

threadgroup uint shared_key[2];
if (thread_index == 0u) {
  uint2 drawn = threefry(uint2(stream[0], stream[1]), uint2(positions[row], stream[2]));
  if (stream[2] != 0u) {
    drawn = threefry(drawn, uint2(stream[3] != 0u ? stream[4] : positions[row], 0u));
  }
  shared_key[0] = drawn.x;
  shared_key[1] = drawn.y;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
const uint2 key = uint2(shared_key[0], shared_key[1]);

const uint pairs = (vocabulary + 1u) / 2u;
const uint share = (pairs + splits - 1u) / splits;
const uint end = metal::min((split + 1u) * share, pairs);
const uint offset = row * vocabulary;
GumbelBest best = gumbel_nothing();
for (uint pair = split * share + thread_index; pair < end; pair += GUMBEL_THREADS) {
  const uint token = 2u * pair;
  const float first = float(logits[offset + token]);
  const float second = token + 1u < vocabulary ? float(logits[offset + token + 1u]) : -INFINITY;
  // What a filter has dropped is drawn nowhere, so nothing is hashed for it: most pairs of most threads, under top-k or top-p.
  if (first == -INFINITY && second == -INFINITY) {
    continue;
  }
  const uint2 words = threefry(key, uint2(pair, pair + 0x20000u));
  best = gumbel_consider(best, gumbel_score(first, inverse_temperature[0], gumbel_units(words.x, table)), token);
  best = gumbel_consider(best, gumbel_score(second, inverse_temperature[0], gumbel_units(words.y, table)), token + 1u);
}
best = gumbel_simd_best(best);

threadgroup float shared_scores[GUMBEL_SIMDGROUPS];
threadgroup float shared_seconds[GUMBEL_SIMDGROUPS];
threadgroup uint shared_ids[GUMBEL_SIMDGROUPS];
if (thread_index_in_simdgroup == 0u) {
  shared_scores[simdgroup_index_in_threadgroup] = best.score;
  shared_seconds[simdgroup_index_in_threadgroup] = best.second;
  shared_ids[simdgroup_index_in_threadgroup] = best.id;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (thread_index == 0u) {
  for (uint group = 1u; group < GUMBEL_SIMDGROUPS; group++) {
    GumbelBest other;
    other.score = shared_scores[group];
    other.second = shared_seconds[group];
    other.id = shared_ids[group];
    best = gumbel_better(best, other);
  }
  split_scores[row * splits + split] = best.score;
  split_seconds[row * splits + split] = best.second;
  split_ids[row * splits + split] = best.id;
}

//// section: rows

// One simdgroup per row: the best of its splits.
const uint row = threadgroup_position_in_grid.y;
const uint splits = uint(split_scores_shape[1]);
GumbelBest best = gumbel_nothing();
for (uint split = thread_index_in_simdgroup; split < splits; split += 32u) {
  GumbelBest other;
  other.score = split_scores[row * splits + split];
  other.second = split_seconds[row * splits + split];
  other.id = split_ids[row * splits + split];
  best = gumbel_better(best, other);
}
best = gumbel_simd_best(best);
if (thread_index_in_simdgroup == 0u) {
  const bool finite = (as_type<uint>(best.score) & 0x7F800000u) != 0x7F800000u;
  ids[row] = finite ? int(best.id) : -1;
  margins[row] = best.score - best.second;
}
