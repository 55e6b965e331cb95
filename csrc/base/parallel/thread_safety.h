// Clang's thread-safety analysis under short names; nothing for other compilers.
//
// Besides locks we use roles: a field that belongs to one thread is guarded by that thread's role, a capability that
// the thread takes when it starts and that costs nothing at run time. Code that another thread could reach and that
// touches such a field does not compile under `clang++ -Wthread-safety -Werror`.
#pragma once

#if defined(__clang__)
#define FRUGAL_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define FRUGAL_THREAD_ATTRIBUTE(x)
#endif

#define FRUGAL_CAPABILITY(name) FRUGAL_THREAD_ATTRIBUTE(capability(name))
#define FRUGAL_SCOPED_CAPABILITY FRUGAL_THREAD_ATTRIBUTE(scoped_lockable)
#define FRUGAL_GUARDED_BY(x) FRUGAL_THREAD_ATTRIBUTE(guarded_by(x))
#define FRUGAL_REQUIRES(...) FRUGAL_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define FRUGAL_ACQUIRE(...) FRUGAL_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define FRUGAL_RELEASE(...) FRUGAL_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace frugal {

class FRUGAL_CAPABILITY("role") ThreadRole {
 public:
  void acquire() FRUGAL_ACQUIRE() {}
  void release() FRUGAL_RELEASE() {}
};

class FRUGAL_SCOPED_CAPABILITY RoleScope {
 public:
  explicit RoleScope(ThreadRole& role) FRUGAL_ACQUIRE(role) : role_(role) { role_.acquire(); }
  ~RoleScope() FRUGAL_RELEASE() { role_.release(); }
  RoleScope(const RoleScope&) = delete;
  RoleScope& operator=(const RoleScope&) = delete;

 private:
  ThreadRole& role_;
};

}  // namespace frugal
