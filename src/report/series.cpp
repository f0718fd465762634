#include "report/series.h"

#include <algorithm>
#include <utility>

namespace leeway {
namespace {

// One update may have two values, such as two evaluations.
bool before(const Point& a, const Point& b) { return a.at.update < b.at.update; }

}  // namespace

// Two points per bucket, and the two ends.
Series::Series(size_t points_max) : buckets_max_(std::max<size_t>(points_max, 6) / 2 - 1) {}

void Series::join(Bucket& bucket, const Bucket& other) {
  bucket.count += other.count;
  if (other.smallest.value < bucket.smallest.value) bucket.smallest = other.smallest;
  if (other.largest.value > bucket.largest.value) bucket.largest = other.largest;
}

void Series::add(const Point& point) {
  if (seen_ == 0) first_ = point;
  last_ = point;
  ++seen_;
  const Bucket one{1, point, point};
  if (!buckets_.empty() && buckets_.back().count < stride_) return join(buckets_.back(), one);
  if (buckets_.size() == buckets_max_) {
    for (size_t i = 0; i + 1 < buckets_.size(); i += 2) {
      join(buckets_[i], buckets_[i + 1]);
      buckets_[i / 2] = buckets_[i];
    }
    // An odd bucket at the end is half full and keeps growing.
    if (buckets_.size() % 2 == 1) buckets_[buckets_.size() / 2] = buckets_.back();
    buckets_.resize((buckets_.size() + 1) / 2);
    stride_ *= 2;
    if (buckets_.back().count < stride_) return join(buckets_.back(), one);
  }
  buckets_.push_back(one);
}

Series Series::mapped(const std::function<double(const Point&)>& value) const {
  Series made = *this;
  const auto change = [&](Point& point) { point.value = value(point); };
  change(made.first_);
  change(made.last_);
  for (Bucket& bucket : made.buckets_) {
    change(bucket.smallest);
    change(bucket.largest);
    if (bucket.largest.value < bucket.smallest.value) std::swap(bucket.largest, bucket.smallest);
  }
  return made;
}

std::vector<Point> Series::points() const {
  std::vector<Point> found;
  const auto append = [&](const Point& point) {
    if (found.empty() || found.back() != point) found.push_back(point);
  };
  if (seen_ > 0) append(first_);
  for (const Bucket& bucket : buckets_) {
    const bool rising = before(bucket.smallest, bucket.largest);
    append(rising ? bucket.smallest : bucket.largest);
    append(rising ? bucket.largest : bucket.smallest);
  }
  if (seen_ > 0) append(last_);
  return found;
}

}  // namespace leeway
