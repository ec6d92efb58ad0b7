#include "tools/plan/places.h"

#include <algorithm>

namespace ronde::plan::tool {
namespace {

constexpr double kNoise = 1.4;  // between two looks at cores that have not moved; those that have differ by 5

}  // namespace

bool moved(double latency, double other) { return latency > kNoise * other || other > kNoise * latency; }

size_t Samples::bytes(size_t tasks, int wanted) { return 2 * tasks * static_cast<size_t>(rounds(wanted)) * sizeof(Sample); }

Sample& Samples::at(int rank, size_t task, int round) const {
  return first_[(static_cast<size_t>(rank) * tasks_ + task) * static_cast<size_t>(rounds()) + static_cast<size_t>(round)];
}

int Samples::count(size_t task, double place) const {
  int n = 0;
  for (int round = 0; round < rounds(); ++round) {
    const double latency = at(0, task, round).latency;
    n += latency > 0 && !moved(latency, place) ? 1 : 0;
  }
  return n;
}

int Samples::best(double* place) const {
  int most = -1, most_of_all = 0;
  for (int round = 0; round < rounds(); ++round) {
    for (const size_t at_task : {size_t{0}, tasks_ / 2}) {  // a place that is worth it has samples of any task
      const double latency = at(0, at_task, round).latency;
      if (latency <= 0) continue;
      int least = wanted_, all = 0;
      for (size_t task = 0; task < tasks_; ++task) {
        const int n = std::min(wanted_, count(task, latency));
        least = std::min(least, n);
        all += n;
      }
      if (least < most || (least == most && all <= most_of_all)) continue;
      most = least;
      most_of_all = all;
      *place = latency;
    }
  }
  return most;
}

bool Samples::enough() const {
  double place = 0;
  return best(&place) >= wanted_;
}

double Samples::place() const {
  double place = 0;
  best(&place);
  return place;
}

std::vector<std::vector<double>> Samples::chosen() const {
  const double where = place();
  std::vector<std::vector<double>> nanos(tasks_);
  for (size_t task = 0; task < tasks_; ++task) {
    const bool any = count(task, where) == 0;
    for (int round = 0; round < rounds() && nanos[task].size() < static_cast<size_t>(wanted_); ++round) {
      const Sample& sample = at(0, task, round);
      if (sample.latency == 0 || (!any && (sample.latency < 0 || moved(sample.latency, where)))) continue;
      nanos[task].push_back(std::max(sample.nanos, at(1, task, round).nanos));
    }
  }
  return nanos;
}

}  // namespace ronde::plan::tool
