// Work cut into parts, which XLA's threads take in turn.

#include "threads/parts.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace {

struct Run {
  const int64_t parts;
  const std::function<void(int64_t)> take;
  std::atomic<int64_t> next{0}, done{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable all_done;

  Run(int64_t parts, std::function<void(int64_t)> take) : parts(parts), take(std::move(take)) {}

  // Takes parts as long as there are any.
  void work() {
    for (int64_t i = next++; i < parts; i = next++) {
      try {
        take(i);
      } catch (const std::exception&) {
        failed = true;
      }
      if (++done == parts) {
        const std::lock_guard<std::mutex> locked(mutex);
        all_done.notify_all();
      }
    }
  }

  void wait() {
    constexpr int kTurns = 200;
    for (int turn = 0; turn < kTurns; ++turn) {
      if (done == parts) return;
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> locked(mutex);
    all_done.wait(locked, [this] { return done == parts; });
  }
};

void join_in(void* data) {
  const std::unique_ptr<std::shared_ptr<Run>> run(static_cast<std::shared_ptr<Run>*>(data));
  (*run)->work();
}

}  // namespace

bool take_parts(const xla_ffi::Call& call, int64_t parts, int64_t threads, std::function<void(int64_t)> take) {
  const auto shared = std::make_shared<Run>(parts, std::move(take));
  const bool has_threads = call.api->size >= offsetof(xla_ffi::Api, schedule) + sizeof call.api->schedule;
  for (int64_t i = 1; has_threads && i < threads; ++i) {
    // Nothing may throw from here on: other threads write to the buffers.
    auto* mine = new (std::nothrow) std::shared_ptr<Run>(shared);
    if (mine == nullptr) break;
    xla_ffi::TaskArguments task = {sizeof task, nullptr, call.context, join_in, mine};
    if (xla_ffi::Error* error = call.api->schedule(&task)) {
      // This thread does what no other can be asked for.
      xla_ffi::ErrorToDestroy destroyed = {sizeof destroyed, nullptr, error};
      call.api->destroy_error(&destroyed);
      delete mine;
      break;
    }
  }
  shared->work();
  shared->wait();
  return !shared->failed;
}
