/* Tells helgrind what the atomics of a Rust program order.
 *
 * Helgrind knows the locks of pthreads. Rust's locks, channels and cells are made of atomics and
 * futexes, so without more every datum that they hand from thread to thread looks like a race. This
 * library, preloaded, replaces the functions of `core::sync::atomic` in every object by wrappers. Each
 * tells helgrind of the order that the call itself asks for: what is stored with `Release` happens before
 * what follows a load with `Acquire` of the same place. A `Relaxed` access orders nothing, so data that
 * are handed over by one are a race, on x86-64 as well.
 *
 * It shows fewer races than there can be: an order once told stays, though another thread may have
 * overwritten the value since, and every fence is ordered with every other one. It needs a build
 * without optimisation, where these functions are functions. The standard library is optimised: its
 * slow paths of locks and `Once` are wrapped one by one below.
 */
#include <valgrind/helgrind.h>
#include <valgrind/valgrind.h>

#ifndef __x86_64__
#error "the wrappers are written for x86-64"
#endif

typedef unsigned long word;

/* What the wrapped functions answer: nothing, a number, or a `Result` of two numbers. */
struct answer {
  word first, second;
};

/* `std::sync::atomic::Ordering`. */
enum order { RELAXED, RELEASE, ACQUIRE, ACQUIRE_RELEASE, SEQUENTIAL };

static int releases(word order) {
  unsigned char kind = (unsigned char)order;
  return kind == RELEASE || kind == ACQUIRE_RELEASE || kind == SEQUENTIAL;
}

static int acquires(word order) {
  unsigned char kind = (unsigned char)order;
  return kind == ACQUIRE || kind == ACQUIRE_RELEASE || kind == SEQUENTIAL;
}

/* Calls the wrapped function, as valgrind's own macros do, which bring back one register of the two. Their
 * text knows the frame's address as the operand %2. */
static struct answer call(word function, word a, word b, word c, word d, word e) {
  volatile word arguments[6] = {function, a, b, c, d, e};
  struct answer answer;
  __asm__ volatile(
      VALGRIND_CFI_PROLOGUE VALGRIND_ALIGN_STACK
      /* The red zone below the stack stays as it is. */
      "subq $128, %%rsp\n\t"
      "movq 40(%%rax), %%r8\n\t"
      "movq 32(%%rax), %%rcx\n\t"
      "movq 24(%%rax), %%rdx\n\t"
      "movq 16(%%rax), %%rsi\n\t"
      "movq 8(%%rax), %%rdi\n\t"
      "movq (%%rax), %%rax\n\t"
      VALGRIND_CALL_NOREDIR_RAX VALGRIND_RESTORE_STACK VALGRIND_CFI_EPILOGUE
      "movq %%rdx, (%%rbx)\n\t"
      : "=a"(answer.first)
      : "a"(&arguments[0]) __FRAME_POINTER, "b"(&answer.second)
      : "cc", "memory", __CALLER_SAVED_REGS, "r14", "r15");
  return answer;
}

static word wrapped(void) {
  OrigFn function;
  VALGRIND_GET_ORIG_FN(function);
  return function.nraddr;
}

/* In the names of wrappers `Za` stands for any text, `Zu` for an underscore. */
#define IN_ANY_OBJECT(name) I_WRAP_SONAME_FNNAME_ZZ(Za, name)

/* What the thread read last without an order: an acquire fence orders it later. */
#define REMEMBERED 8
static __thread word read_before[REMEMBERED];
static __thread unsigned reads;

/* After a value of `place` was read. */
static void was_read(word place, word order) {
  if (acquires(order))
    ANNOTATE_HAPPENS_AFTER(place);
  else
    read_before[reads++ % REMEMBERED] = place;
}

/* load(place, order) */
struct answer IN_ANY_OBJECT(Za4core4sync6atomic11atomicZuloadZa)(word place, word order) {
  struct answer answer = call(wrapped(), place, order, 0, 0, 0);
  was_read(place, order);
  return answer;
}

/* store(place, value, order) */
struct answer IN_ANY_OBJECT(Za4core4sync6atomic12atomicZustoreZa)(word place, word value, word order) {
  word function = wrapped();
  if (releases(order)) ANNOTATE_HAPPENS_BEFORE(place);
  return call(function, place, value, order, 0, 0);
}

/* Those that read and write: swap(place, value, order) and the like. */
#define CHANGE(name)                                                           \
  struct answer IN_ANY_OBJECT(name)(word place, word value, word order) {      \
    word function = wrapped();                                                 \
    if (releases(order)) ANNOTATE_HAPPENS_BEFORE(place);                       \
    struct answer answer = call(function, place, value, order, 0, 0);          \
    was_read(place, order);                                                    \
    return answer;                                                             \
  }
CHANGE(Za4core4sync6atomicZa4swapZa)
CHANGE(Za4core4sync6atomicZa9fetchZuaddZa)
CHANGE(Za4core4sync6atomicZa9fetchZusubZa)
CHANGE(Za4core4sync6atomicZa9fetchZuandZa)
CHANGE(Za4core4sync6atomicZa10fetchZunandZa)
CHANGE(Za4core4sync6atomicZa8fetchZuorZa)
CHANGE(Za4core4sync6atomicZa9fetchZuxorZa)
CHANGE(Za4core4sync6atomicZa9fetchZumaxZa)
CHANGE(Za4core4sync6atomicZa9fetchZuminZa)

/* compare_exchange(place, old, new, success, failure): a `Result`, 0 is `Ok`. */
#define COMPARE_EXCHANGE(name)                                                 \
  struct answer IN_ANY_OBJECT(name)(word place, word old, word new_value,      \
                                    word success, word failure) {              \
    word function = wrapped();                                                 \
    if (releases(success)) ANNOTATE_HAPPENS_BEFORE(place);                     \
    struct answer answer = call(function, place, old, new_value, success, failure); \
    int failed = (unsigned char)answer.first != 0;                             \
    was_read(place, failed ? failure : success);                               \
    return answer;                                                             \
  }
COMPARE_EXCHANGE(Za4core4sync6atomic23atomicZucompareZuexchangeZa)
COMPARE_EXCHANGE(Za4core4sync6atomic28atomicZucompareZuexchangeZuweakZa)

/* fence(order) */
static char fences;
struct answer IN_ANY_OBJECT(Za4core4sync6atomic5fenceZa)(word order) {
  word function = wrapped();
  if (releases(order)) ANNOTATE_HAPPENS_BEFORE(&fences);
  struct answer answer = call(function, order, 0, 0, 0, 0);
  if (acquires(order)) {
    ANNOTATE_HAPPENS_AFTER(&fences);
    for (unsigned at = 0; at < REMEMBERED; at++)
      if (read_before[at]) ANNOTATE_HAPPENS_AFTER(read_before[at]);
  }
  return answer;
}

/* The last owner of an `Arc` drops what all others did with it. These are compiled with the standard
 * library's own atomics inside. */
struct answer IN_ANY_OBJECT(ZaallocZdZdsyncZdZdArcZaDropZa4dropZa)(word arc) {
  word function = wrapped();
  ANNOTATE_HAPPENS_BEFORE(*(word *)arc);
  return call(function, arc, 0, 0, 0, 0);
}
struct answer IN_ANY_OBJECT(ZaallocZa4syncZaArcZa9dropZuslowZa)(word arc) {
  word function = wrapped();
  ANNOTATE_HAPPENS_AFTER(*(word *)arc);
  return call(function, arc, 0, 0, 0, 0);
}

/* An unlocked `Mutex` of the standard library: its state is what it begins with, and a guard with its
 * address. */
struct answer IN_ANY_OBJECT(ZastdZdZdsyncZdZdpoisonZdZdmutexZdZdMutexGuardZaDropZa4dropZa)(word guard) {
  word function = wrapped();
  ANNOTATE_HAPPENS_BEFORE(*(word *)guard);
  return call(function, guard, 0, 0, 0, 0);
}

/* The slow paths of the standard library's locks: they return with the lock held. */
#define LOCK(name)                                                             \
  struct answer IN_ANY_OBJECT(name)(word lock) {                               \
    struct answer answer = call(wrapped(), lock, 0, 0, 0, 0);                  \
    ANNOTATE_HAPPENS_AFTER(lock);                                              \
    return answer;                                                             \
  }
LOCK(Za3std3sys4sync5mutex5futexZa5Mutex14lockZucontended)
LOCK(Za3std3sys4sync6rwlock5futexZa6RwLock14readZucontended)
LOCK(Za3std3sys4sync6rwlock5futexZa6RwLock15writeZucontended)

/* A `Barrier`: what any thread did before it happens before what all do behind it. */
struct answer IN_ANY_OBJECT(Za3std4sync7barrierZa7Barrier4waitZa)(word barrier) {
  word function = wrapped();
  ANNOTATE_HAPPENS_BEFORE(barrier);
  struct answer answer = call(function, barrier, 0, 0, 0, 0);
  ANNOTATE_HAPPENS_AFTER(barrier);
  return answer;
}

/* `Once::call(once, ignore_poison, closure, its table, place in the source)` sets the state when the
 * closure has returned; a later caller reads that state by an atomic load, wrapped as above. The closure
 * that it calls is that of `call_once` or of `call_once_force`. */
static __thread word current_once;
struct answer IN_ANY_OBJECT(Za3std3sys4sync4once5futexZa4Once4call)(word once, word ignore, word closure,
                                                                   word table, word place) {
  word function = wrapped(), outer = current_once;
  current_once = once;
  struct answer answer = call(function, once, ignore, closure, table, place);
  current_once = outer;
  ANNOTATE_HAPPENS_AFTER(once);
  return answer;
}

#define ONCE_CLOSURE(name)                                                     \
  struct answer IN_ANY_OBJECT(name)(word closure, word state) {                \
    word function = wrapped(), once = current_once;                            \
    struct answer answer = call(function, closure, state, 0, 0, 0);            \
    if (once) ANNOTATE_HAPPENS_BEFORE(once);                                   \
    return answer;                                                             \
  }
ONCE_CLOSURE(Za4once4Once9callZuonce28Za)
ONCE_CLOSURE(Za4once4Once15callZuonceZuforce28Za)
