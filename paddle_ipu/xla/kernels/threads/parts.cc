// Runs the parts of a piece of work on XLA's threads.

#include "threads/parts.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
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

}  // namespace

bool take_parts(xla::ffi::ThreadPool& pool, int64_t parts, int64_t threads, std::function<void(int64_t)> take) {
  const auto shared = std::make_shared<Run>(parts, std::move(take));
  try {
    // A task shares the run, so that a late one finds it still there. Where XLA has no pool, Schedule calls the first
    // one here, which computes everything.
    for (int64_t i = 1; i < threads; ++i) pool.Schedule([shared] { shared->work(); });
  } catch (const std::exception&) {
    // No memory for a task. Other threads may write to the buffers already, so this one computes what remains.
  }
  shared->work();
  shared->wait();
  return !shared->failed;
}
