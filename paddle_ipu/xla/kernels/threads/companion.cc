// A thread beside the one that runs small programs one after the other.

#include "threads/companion.h"

#include "threads/awake.h"

#include <semaphore.h>

#include <atomic>
#include <exception>
#include <thread>

namespace {

// Nanoseconds within which work has to follow on work, and how often in a row before the thread is woken: that
// takes as long as a small program.
constexpr int64_t kSoon = 250'000;
constexpr int kStreak = 16;
constexpr int kLooks = 32, kPatience = 2000;

struct Job {
  const std::function<void(int64_t)>& take;
  const int64_t parts;
  std::atomic<int64_t> begun{0};
  std::atomic<bool> failed{false}, is_left{false};

  Job(int64_t parts, const std::function<void(int64_t)>& take) : take(take), parts(parts) {}

  // Takes parts as long as there are any, from the first on or from the last.
  void work(bool from_last) {
    for (int64_t i = 0; begun.fetch_add(1) < parts; ++i) {
      try {
        take(from_last ? parts - 1 - i : i);
      } catch (const std::exception&) {
        failed = true;
      }
    }
  }
};

class Companion {
 public:
  // Not every system has semaphores.
  Companion() : can_sleep_(sem_init(&woken_, 0, 0) == 0) {}

  // Work begins, and ends: whether the companion is awake for a part of it.
  bool begin() {
    const int64_t moment = awake::now();
    const bool is_soon = moment - last_.exchange(moment) < kSoon;
    // Two threads have such work at a time.
    if (working_.fetch_add(1) != 0) apart_until_ = moment + awake::kApart;
    if (!is_soon || moment < apart_until_ || !can_sleep_) {
      streak_ = 0;
      return false;
    }
    if (is_awake_) return true;
    if (++streak_ >= kStreak) wake();
    return false;
  }

  void end() { --working_; }

  // Shows a job; false where another one is shown.
  bool offer(Job& job) {
    Job* none = nullptr;
    return offered_.compare_exchange_strong(none, &job);
  }

  // Takes an offer back; false where the companion has it.
  bool withdraw(Job& job) {
    Job* mine = &job;
    return offered_.compare_exchange_strong(mine, nullptr);
  }

 private:
  void wake() {
    streak_ = 0;
    if (is_awake_.exchange(true)) return;
    if (!is_started_.exchange(true)) {
      try {
        std::thread(&Companion::watch, this).detach();
      } catch (const std::exception&) {
        // Whoever works goes on alone: it takes back what it offers.
        return;
      }
    }
    sem_post(&woken_);
  }

  void watch() {
    for (;;) {
      while (sem_wait(&woken_) != 0) {
      }
      look_for_work();
      is_awake_ = false;
    }
  }

  void look_for_work() {
    int64_t before = awake::now(), until = before + kSoon;
    for (;;) {
      for (int look = 0; look < kLooks; ++look) {
        if (offered_.load(std::memory_order_relaxed) != nullptr) {
          if (Job* job = offered_.exchange(nullptr)) {
            job->work(true);
            job->is_left = true;
            before = awake::now();
            until = before + kSoon;
          }
        }
        awake::rest();
      }
      std::this_thread::yield();
      const int64_t moment = awake::now();
      if (moment - before > awake::kPushed) apart_until_ = moment + awake::kApart;
      if (moment > until || moment < apart_until_) return;
      before = moment;
    }
  }

  std::atomic<Job*> offered_{nullptr};
  std::atomic<bool> is_awake_{false}, is_started_{false};
  std::atomic<int64_t> last_{0}, apart_until_{0};
  std::atomic<int> streak_{0}, working_{0};
  sem_t woken_;
  const bool can_sleep_;
};

}  // namespace

bool take_parts_beside(int64_t parts, const std::function<void(int64_t)>& take) {
  // Never destroyed: its thread outlives this library's globals.
  static auto& companion = *new Companion;
  Job job(parts, take);
  const bool is_offered = companion.begin() && companion.offer(job);
  job.work(false);
  if (is_offered && !companion.withdraw(job)) {
    for (int turn = 0; !job.is_left; ++turn) {
      if (turn < kPatience) {
        awake::rest();
      } else {
        std::this_thread::yield();
      }
    }
  }
  companion.end();
  return !job.failed;
}
