// Enough of the Metal language to run the kernels of `shaders/` as C++20, one threadgroup at a time, on one core.
//
// Every thread of a threadgroup is a fiber that runs until it waits: at a threadgroup barrier for all the others, at a shuffle for
// its simdgroup. The order in which fibers get their turn is chosen by the caller, so a missing barrier fails every time and not
// sometimes. Threadgroup memory is filled with rubbish before each group.
//
// With clang, -DSHIM_ADDRESS_SPACES turns device, constant and threadgroup into real address spaces for a syntax check: a helper
// that takes a `device` pointer then refuses a `constant` one, as Apple's compiler does.
#pragma once

// Few headers, since every mutation of the kernel is compiled: the mathematics comes from builtins.
#include <setjmp.h>
#include <stdint.h>
#include <ucontext.h>

#define INFINITY __builtin_inff()
using uint = unsigned int;
using ushort = unsigned short;

struct uint2 {
  uint x, y;
  uint2(uint x, uint y) : x(x), y(y) {}
};
struct uint3 {
  uint x, y, z;
};

// The two half formats only ever become floats here. A class cannot be read from an address space of its own, so there they are floats.
#ifdef SHIM_ADDRESS_SPACES
using half = float;
using bfloat16_t = float;
#else
struct half {
  uint16_t bits;
  operator float() const {
    const int sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    if (exponent == 31) return mantissa ? __builtin_nanf("") : sign * INFINITY;
    return sign * (exponent ? __builtin_ldexpf(float(1024 + mantissa), exponent - 25) : __builtin_ldexpf(float(mantissa), -24));
  }
};
struct bfloat16_t {
  uint16_t bits;
  operator float() const {
    const uint wide = uint(bits) << 16;
    float value;
    __builtin_memcpy(&value, &wide, 4);
    return value;
  }
};
#endif
using float16_t = half;

template <typename To, typename From>
To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

enum class mem_flags { mem_none, mem_device, mem_threadgroup };

namespace shim {

constexpr uint SIMDGROUP = 32;
constexpr uint MOST_THREADS = 1024;
constexpr uint STACK = 32 * 1024;

// A place where `members` threads wait for each other.
struct Meeting {
  uint members = 0, arrived = 0, generation = 0;
};

struct Fiber {
  jmp_buf here;
  bool started = false, finished = false;
  const Meeting* waits_at = nullptr;
  uint waits_for = 0;  // generation that has to be over
  char stack[STACK];
};

inline Fiber fibers[MOST_THREADS];
inline Meeting simdgroups[MOST_THREADS / SIMDGROUP];
inline Meeting everyone;
inline uint current;
inline jmp_buf scheduler;
inline ucontext_t entry;
inline void (*body)(uint);
inline uint64_t exchange[2][MOST_THREADS];
inline uint shuffles[MOST_THREADS];

inline void wait_at(Meeting& meeting) {
  const uint generation = meeting.generation;
  if (++meeting.arrived == meeting.members) {
    meeting.arrived = 0;
    meeting.generation++;
    return;
  }
  Fiber& fiber = fibers[current];
  fiber.waits_at = &meeting;
  fiber.waits_for = generation;
  if (!_setjmp(fiber.here)) _longjmp(scheduler, 1);
}

inline void start() {
  body(current);
  fibers[current].finished = true;
  _longjmp(scheduler, 1);
}

// Runs one fiber until it waits or ends.
inline void resume(uint thread) {
  current = thread;
  if (_setjmp(scheduler)) return;
  Fiber& fiber = fibers[thread];
  fiber.waits_at = nullptr;
  if (fiber.started) _longjmp(fiber.here, 1);
  fiber.started = true;
  getcontext(&entry);
  entry.uc_stack.ss_sp = fiber.stack;
  entry.uc_stack.ss_size = STACK;
  makecontext(&entry, start, 0);
  setcontext(&entry);
}

// Runs `threads` fibers, a multiple of SIMDGROUP, to their end. False: some wait for others that have ended, which hangs a GPU.
inline bool run_group(uint threads, bool backward, void (*thread_body)(uint)) {
  body = thread_body;
  everyone = Meeting{threads};
  for (uint thread = 0; thread < threads; thread++) {
    simdgroups[thread / SIMDGROUP] = Meeting{SIMDGROUP};
    fibers[thread].started = fibers[thread].finished = false;
    fibers[thread].waits_at = nullptr;
    shuffles[thread] = 0;
  }
  bool moved = true;
  while (moved) {
    moved = false;
    for (uint turn = 0; turn < threads; turn++) {
      const uint thread = backward ? threads - 1 - turn : turn;
      const Fiber& fiber = fibers[thread];
      if (fiber.finished || (fiber.waits_at && fiber.waits_at->generation == fiber.waits_for)) continue;
      moved = true;
      resume(thread);
    }
  }
  for (uint thread = 0; thread < threads; thread++)
    if (!fibers[thread].finished) return false;
  return true;
}

}  // namespace shim

#define threadgroup_barrier(flags) (static_cast<void>(flags), shim::wait_at(shim::everyone))

namespace metal {

template <typename T>
T max(T a, T b) { return a > b ? a : b; }
template <typename T>
T min(T a, T b) { return a < b ? a : b; }
// Of floats they are fmax and fmin: where one operand is not a number, the other one (Metal Shading Language, 6.5).
inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
inline float min(float a, float b) { return __builtin_fminf(a, b); }

// Slots alternate, so that a fast lane's next shuffle cannot overwrite what a slow lane still has to read.
template <typename T>
T simd_shuffle_xor(T value, ushort mask) {
  const uint self = shim::current;
  uint64_t* slots = shim::exchange[shim::shuffles[self]++ % 2];
  __builtin_memcpy(&slots[self], &value, sizeof(T));
  shim::wait_at(shim::simdgroups[self / shim::SIMDGROUP]);
  T other;
  __builtin_memcpy(&other, &slots[self ^ mask], sizeof(T));
  return other;
}

}  // namespace metal

using namespace metal;

#ifdef SHIM_ADDRESS_SPACES
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2)))
#define threadgroup static __attribute__((address_space(3)))
#else
#define device
#define constant
#define threadgroup static __attribute__((section("threadgroup_memory")))
extern char __start_threadgroup_memory[] __attribute__((weak));
extern char __stop_threadgroup_memory[] __attribute__((weak));
// What all kernels of a program have in threadgroup memory together; each has it for one threadgroup.
extern "C" __attribute__((visibility("default"))) unsigned long threadgroup_bytes() {
  return __start_threadgroup_memory ? __stop_threadgroup_memory - __start_threadgroup_memory : 0;
}
#endif
#define kernel
