// One curve of a run, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace leeway {

// A point in a run, on every axis that a curve can be drawn against.
struct Standing {
  int64_t update = 0;
  int64_t tokens = 0;
  double seconds = 0;
  int64_t bytes_averaging = 0;  // sent between replicas
  int64_t bytes = 0;            // sent for all purposes
  bool operator==(const Standing&) const = default;
};

struct Point {
  Standing at;
  double value = 0;
  bool operator==(const Point&) const = default;
};

// Once there are many points, neighbours share a bucket. The smallest and largest point of each
// bucket stay, so no spike is lost, and so do the curve's first and last point.
class Series {
 public:
  // Keeps 4 to `points_max` points.
  explicit Series(size_t points_max = 2000);

  void add(const Point& point);
  int64_t seen() const { return seen_; }
  bool thinned() const { return stride_ > 1; }
  std::vector<Point> points() const;
  // The same curve with other values; of each bucket, the points that were kept stay.
  Series mapped(const std::function<double(const Point&)>& value) const;

 private:
  struct Bucket {
    int64_t count = 0;
    Point smallest;
    Point largest;
  };
  static void join(Bucket& bucket, const Bucket& other);

  size_t buckets_max_;
  int64_t stride_ = 1;  // points per bucket
  int64_t seen_ = 0;
  Point first_;
  Point last_;
  std::vector<Bucket> buckets_;
};

}  // namespace leeway
