// Fails file operations below one directory, for LD_PRELOAD. From the environment:
//   FAULT_DIR=PATH     whose files are meant; absolute
//   FAULT_KIND=KIND    eio, enospc: the operation fails so
//                      full: enospc, of operations that want room
//                      short: half of a write is done; torn: that, and then it fails with EIO
//                      delay: it takes 0.1 s longer
//                      kill: the process dies before it; dead: after it
//   FAULT_AT=N         the first operation that fails, counting from 1 those that the kind is for
//   FAULT_COUNT=C      how many fail in a row (1)
//   FAULT_LOG=FILE     gets a line "N OPERATION PATH" for each
// Operations: open, read, write, fsync, rename, unlink, ftruncate and their kin.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

enum Operation { kOpen, kCreate, kRead, kWrite, kSync, kRename, kUnlink, kTruncate };
constexpr const char* kNames[] = {"open", "create", "read",   "write",
                                  "sync", "rename", "unlink", "truncate"};
enum Verdict { kGoOn, kFail, kHalf, kHalfThenFail, kDieAfter };

struct Plan {
  std::string directory, kind, log;
  long first = 0, count = 1;
  int error = EIO;

  Plan() {
    const auto get = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value ? value : "");
    };
    directory = get("FAULT_DIR");
    kind = get("FAULT_KIND");
    log = get("FAULT_LOG");
    first = std::atol(get("FAULT_AT").c_str());
    if (const std::string text = get("FAULT_COUNT"); !text.empty()) count = std::atol(text.c_str());
    if (kind == "enospc" || kind == "full") error = ENOSPC;
  }
  bool is_for(Operation operation) const {
    if (kind == "short" || kind == "torn") return operation == kWrite;
    if (kind == "full") return operation == kWrite || operation == kCreate;
    // What a reader does leaves no trace: to be killed there is to be killed elsewhere.
    if (kind == "kill" || kind == "dead") return operation != kRead && operation != kOpen;
    return true;
  }
};

// Never destroyed: libraries write until the end.
const Plan& plan() {
  static const Plan* const the_plan = new Plan;
  return *the_plan;
}

std::atomic<long> num_operations{0};
thread_local bool inside = false;  // of the shim itself

void note(long number, Operation operation, const char* path) {
  char line[512];
  const int bytes =
      std::snprintf(line, sizeof(line), "%ld %s %s\n", number, kNames[operation], path);
  const long fd = syscall(SYS_open, plan().log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  syscall(SYS_write, fd, line, bytes);
  syscall(SYS_close, fd);
}

Verdict judge(Operation operation, const char* path) {
  if (inside || plan().first == 0 || !plan().is_for(operation)) return kGoOn;
  if (std::strncmp(path, plan().directory.c_str(), plan().directory.size()) != 0) return kGoOn;
  const long number = ++num_operations;
  if (number < plan().first || number >= plan().first + plan().count) return kGoOn;
  inside = true;
  note(number, operation, path);
  inside = false;
  const std::string& kind = plan().kind;
  if (kind == "kill") kill(getpid(), SIGKILL);
  if (kind == "dead") return kDieAfter;
  if (kind == "short") return kHalf;
  if (kind == "torn") return kHalfThenFail;
  if (kind == "delay") {
    const timespec tenth{0, 100'000'000};
    nanosleep(&tenth, nullptr);
    return kGoOn;
  }
  errno = plan().error;
  return kFail;
}

Verdict judge(Operation operation, int fd) {
  if (inside || plan().first == 0) return kGoOn;
  char name[64], path[4096];
  std::snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
  const long bytes = syscall(SYS_readlink, name, path, sizeof(path) - 1);
  if (bytes <= 0) return kGoOn;
  path[bytes] = '\0';
  return judge(operation, path);
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Calls the real function unless it is to fail.
template <typename Call>
auto with_fault(Verdict verdict, const Call& call) -> decltype(call()) {
  if (verdict == kFail) return -1;
  const auto result = call();
  if (verdict == kDieAfter) kill(getpid(), SIGKILL);
  return result;
}

// `call` takes how many bytes to write.
template <typename Call>
ssize_t write_with_fault(int fd, std::size_t bytes, const Call& call) {
  const Verdict verdict = judge(kWrite, fd);
  if (verdict != kHalf && verdict != kHalfThenFail)
    return with_fault(verdict, [&] { return call(bytes); });
  const ssize_t written = call(bytes > 1 ? bytes / 2 : bytes);
  if (verdict == kHalf) return written;
  errno = EIO;
  return -1;
}

Operation opening(int flags) { return (flags & O_CREAT) != 0 ? kCreate : kOpen; }

int open_with_fault(const char* name, const char* path, int flags, mode_t mode) {
  return with_fault(judge(opening(flags), path),
                    [&] { return next<int(const char*, int, ...)>(name)(path, flags, mode); });
}
int openat_with_fault(const char* name, int directory, const char* path, int flags, mode_t mode) {
  const Operation operation = opening(flags);
  const Verdict verdict = *path == '/' ? judge(operation, path) : judge(operation, directory);
  return with_fault(verdict, [&] {
    return next<int(int, const char*, int, ...)>(name)(directory, path, flags, mode);
  });
}

mode_t mode_of(va_list arguments, int flags) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(arguments, flags);
  va_end(arguments);
  return open_with_fault("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(arguments, flags);
  va_end(arguments);
  return open_with_fault("open64", path, flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(arguments, flags);
  va_end(arguments);
  return openat_with_fault("openat", directory, path, flags, mode);
}
int openat64(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(arguments, flags);
  va_end(arguments);
  return openat_with_fault("openat64", directory, path, flags, mode);
}

ssize_t read(int fd, void* to, size_t bytes) {
  return with_fault(judge(kRead, fd),
                    [&] { return next<ssize_t(int, void*, size_t)>("read")(fd, to, bytes); });
}
ssize_t pread(int fd, void* to, size_t bytes, off_t at) {
  return with_fault(judge(kRead, fd), [&] {
    return next<ssize_t(int, void*, size_t, off_t)>("pread")(fd, to, bytes, at);
  });
}
ssize_t pread64(int fd, void* to, size_t bytes, off64_t at) {
  return with_fault(judge(kRead, fd), [&] {
    return next<ssize_t(int, void*, size_t, off64_t)>("pread64")(fd, to, bytes, at);
  });
}

ssize_t write(int fd, const void* from, size_t bytes) {
  return write_with_fault(fd, bytes, [&](size_t some) {
    return next<ssize_t(int, const void*, size_t)>("write")(fd, from, some);
  });
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t at) {
  return write_with_fault(fd, bytes, [&](size_t some) {
    return next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, from, some, at);
  });
}
ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t at) {
  return write_with_fault(fd, bytes, [&](size_t some) {
    return next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(fd, from, some, at);
  });
}

int fsync(int fd) {
  return with_fault(judge(kSync, fd), [&] { return next<int(int)>("fsync")(fd); });
}
int fdatasync(int fd) {
  return with_fault(judge(kSync, fd), [&] { return next<int(int)>("fdatasync")(fd); });
}
int ftruncate(int fd, off_t bytes) noexcept {
  return with_fault(judge(kTruncate, fd),
                    [&] { return next<int(int, off_t)>("ftruncate")(fd, bytes); });
}
int ftruncate64(int fd, off64_t bytes) noexcept {
  return with_fault(judge(kTruncate, fd),
                    [&] { return next<int(int, off64_t)>("ftruncate64")(fd, bytes); });
}

int rename(const char* from, const char* to) noexcept {
  return with_fault(judge(kRename, from),
                    [&] { return next<int(const char*, const char*)>("rename")(from, to); });
}
int unlink(const char* path) noexcept {
  return with_fault(judge(kUnlink, path), [&] { return next<int(const char*)>("unlink")(path); });
}
int unlinkat(int directory, const char* path, int flags) noexcept {
  const Verdict verdict = *path == '/' ? judge(kUnlink, path) : judge(kUnlink, directory);
  return with_fault(verdict, [&] {
    return next<int(int, const char*, int)>("unlinkat")(directory, path, flags);
  });
}
int remove(const char* path) noexcept {
  return with_fault(judge(kUnlink, path), [&] { return next<int(const char*)>("remove")(path); });
}

}  // extern "C"
