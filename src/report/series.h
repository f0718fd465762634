// One curve of a run, in bounded memory however long the run is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace leeway {

// Where a run stands: every axis that a curve can be drawn against.
struct Standing {
  int64_t update = 0;
  int64_t tokens = 0;
  double seconds = 0;
  int64_t bytes_averaging = 0;  // between replicas
  int64_t bytes = 0;            // of every purpose
  bool operator==(const Standing&) const = default;
};

struct Point {
  Standing at;
  double value = 0;
  bool operator==(const Point&) const = default;
};

// Neighbouring points share a bucket once there are many; of each bucket the smallest and the
// largest stay, so that no spike is lost, and of the whole curve its first and its last point.
class Series {
 public:
  // Holds 4 to `points_max` points.
  explicit Series(size_t points_max = 2000);

  void add(const Point& point);
  int64_t seen() const { return seen_; }
  bool thinned() const { return stride_ > 1; }
  std::vector<Point> points() const;

 private:
  struct Bucket {
    int64_t count = 0;
    Point smallest;
    Point largest;
  };
  static void join(Bucket& bucket, const Bucket& other);

  size_t buckets_max_;
  int64_t stride_ = 1;  // points to a bucket
  int64_t seen_ = 0;
  Point first_;
  Point last_;
  std::vector<Bucket> buckets_;
};

}  // namespace leeway
