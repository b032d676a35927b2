// Runs the parts of a piece of work on XLA's threads.

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

// The state of one run, shared by its threads: each takes the next part until none is left.
struct Run {
  const int64_t parts;
  const std::function<void(int64_t)> take;
  std::atomic<int64_t> next{0}, done{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable all_done;

  Run(int64_t parts, std::function<void(int64_t)> take) : parts(parts), take(std::move(take)) {}

  // Takes parts until none is left. Exceptions must not leave a thread of XLA's.
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

  // Waits for the parts that other threads still compute: first by yielding, since they mostly end within
  // microseconds and a wake-up takes longer.
  void wait() {
    constexpr int kYields = 200;
    for (int i = 0; i < kYields; ++i) {
      if (done == parts) return;
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> locked(mutex);
    all_done.wait(locked, [this] { return done == parts; });
  }
};

// XLA's task: `data` is a shared_ptr of its own, so that a late task finds the run still there.
void run_task(void* data) {
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
    xla_ffi::TaskArguments task = {sizeof task, nullptr, call.context, run_task, mine};
    if (xla_ffi::Error* error = call.api->schedule(&task)) {
      // No pool: this thread computes all parts that remain.
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
