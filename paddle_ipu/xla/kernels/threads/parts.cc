// Runs the parts of a piece of work on XLA's threads.

#include "threads/parts.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// A thread that is done within kShort of a run's start stays awake for kAwake: the next piece of work mostly follows
// within microseconds. XLA would wake another thread for it, which takes as long as small work does, and often begins on
// the processor of the thread that waits for it. After kTask it is XLA's again, whose own loops need threads, too.
constexpr std::chrono::microseconds kAwake{20}, kShort{200}, kTask{10000};
// More are seldom worth their wait: short work is shared by few.
constexpr int64_t kMostAwake = 8;

// The state of one run, shared by its threads: each takes the next part until none is left.
struct Run {
  const int64_t parts;
  const std::function<void(int64_t)> take;
  const std::thread::id caller = std::this_thread::get_id();
  const Clock::time_point start = Clock::now();
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

// Threads that stay awake, and runs for them: never more runs than threads, and no thread leaves without a run while
// there are any.
class Awake {
 public:
  // Gives a run to one of the threads; false where there is none for it.
  bool offer(const std::shared_ptr<Run>& run) {
    if (threads_ == 0) return false;
    const std::lock_guard<std::mutex> locked(mutex_);
    // A run that the caller has done alone still counts: the thread it was for may have no processor but the caller's.
    if (static_cast<int64_t>(runs_.size()) >= threads_) return false;
    runs_.push_back(run);
    offers_ = static_cast<int64_t>(runs_.size());
    return true;
  }

  // This thread's next run; null where none is offered in time.
  std::shared_ptr<Run> wait() {
    const Clock::time_point end = Clock::now() + kAwake;
    if (++threads_ > kMostAwake) {
      const std::lock_guard<std::mutex> locked(mutex_);
      return left();
    }
    for (;;) {
      while (offers_ == 0 && Clock::now() < end) std::this_thread::yield();
      const std::lock_guard<std::mutex> locked(mutex_);
      if (!runs_.empty() || Clock::now() >= end) return left();
    }
  }

 private:
  // A thread leaves, with a run if there is one.
  std::shared_ptr<Run> left() {
    --threads_;
    if (runs_.empty()) return nullptr;
    const std::shared_ptr<Run> run = std::move(runs_.back());
    runs_.pop_back();
    offers_ = static_cast<int64_t>(runs_.size());
    return run;
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Run>> runs_;
  // Read without the mutex, to wait for a change of it.
  std::atomic<int64_t> threads_{0}, offers_{0};
};

// Threads of XLA's may wait here while the process ends.
Awake& awake = *new Awake;

// A task of one of XLA's threads: the parts of a run, and of those that follow soon.
void work_on(std::shared_ptr<Run> run) {
  const Clock::time_point end = Clock::now() + kTask;
  while (run != nullptr) {
    run->work();
    // The caller itself comes here where XLA has no pool, or late.
    const Clock::time_point now = Clock::now();
    const bool stays = run->caller != std::this_thread::get_id() && now - run->start < kShort && now < end;
    run = stays ? awake.wait() : nullptr;
  }
}

}  // namespace

bool take_parts(xla::ffi::ThreadPool& pool, int64_t parts, int64_t threads, std::function<void(int64_t)> take) {
  const auto shared = std::make_shared<Run>(parts, std::move(take));
  try {
    // Each task shares the run, so that a late one finds it still there. Where XLA has no pool, Schedule calls the first
    // one here, which computes everything.
    for (int64_t i = 1; i < threads; ++i) {
      if (!awake.offer(shared)) pool.Schedule([shared]() mutable { work_on(std::move(shared)); });
    }
  } catch (const std::exception&) {
    // No memory for a task. Other threads may write to the buffers already, so this one computes what remains.
  }
  shared->work();
  shared->wait();
  return !shared->failed;
}
