#include "engine/line/line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/model/trace.h"

namespace sonde::line {
namespace {

using model::kNone;
using model::Mark;
using model::Span;
using model::ValueType;

std::string duration_of(std::int64_t ns) {
  std::string out;
  append_duration(out, ns);
  return out;
}

std::string value_of(const Mark& mark) {
  std::string out;
  append_value(out, mark);
  return out;
}

Mark real(double value) {
  Mark mark;
  mark.real = value;
  return mark;
}

TEST(Line, DurationsAreFlooredToMicroseconds) {
  EXPECT_EQ(duration_of(0), "0us");
  EXPECT_EQ(duration_of(142'999), "142us");
  EXPECT_EQ(duration_of(999'999), "999us");
  EXPECT_EQ(duration_of(1'500'000), "1.5ms");
  EXPECT_EQ(duration_of(999'949'000), "999.9ms");
  EXPECT_EQ(duration_of(1'000'000'000), "1.00s");
  EXPECT_EQ(duration_of(3'050'863'516'094), "3050.86s");
  EXPECT_EQ(duration_of(-5), "0us") << "never negative";
  EXPECT_EQ(duration_of(kNone), "open");
}

TEST(Line, Floats) {
  EXPECT_EQ(value_of(real(0.5234)), "0.5234");
  EXPECT_EQ(value_of(real(2)), "2.0000");
  EXPECT_EQ(value_of(real(0)), "0.0000");
  EXPECT_EQ(value_of(real(1e-5)), "1e-05") << "four decimals would show nothing of it";
  EXPECT_EQ(value_of(real(std::nan(""))), "nan");
  EXPECT_EQ(value_of(real(-std::numeric_limits<double>::infinity())), "-inf");
  EXPECT_EQ(value_of(real(1e300)), "1e+300");
}

TEST(Line, OtherValues) {
  Mark mark;
  mark.type = ValueType::kInt;
  mark.integer = -3;
  EXPECT_EQ(value_of(mark), "-3");
  mark.text = "123456789012345678901234567890";
  EXPECT_EQ(value_of(mark), mark.text) << "too large for 64 bits";
  mark.type = ValueType::kBool;
  mark.integer = 1;
  EXPECT_EQ(value_of(mark), "True");
  mark.type = ValueType::kString;
  mark.text = "warm up";
  EXPECT_EQ(value_of(mark), "warm up");
}

TEST(Line, TheWholeLine) {
  Span span;
  span.name = "epoch";
  span.index = 0;
  span.start_ns = 1'000;
  span.end_ns = 143'500;
  Mark loss = real(0.5234), more = real(1);
  loss.name = "epoch_loss";
  more.name = "x";
  std::string out = "[cirron] ";
  append_line(out, span, std::vector<const Mark*>{&loss, &more});
  EXPECT_EQ(out, "[cirron] epoch[0] - 142us {epoch_loss=0.5234, x=1.0000}");
}

TEST(Line, OpenSaysHowLongWhereThatIsKnown) {
  Span span;
  span.name = "epoch";
  span.start_ns = 1'000'000'000;
  span.seen_ns = 4'200'000'000;
  std::string line;
  append_line(line, span, {});
  EXPECT_EQ(line, "epoch - running, 3.20s");
  span.left = true;
  line.clear();
  append_line(line, span, {});
  EXPECT_EQ(line, "epoch - left open, 3.20s");
}

TEST(Line, OpenWithoutIndexOrMarks) {
  Span span;
  span.name = "forward";
  std::string out;
  append_line(out, span, {});
  EXPECT_EQ(out, "forward - open");
}

TEST(Span, DurationIsNeverNegativeAndNeverOverflows) {
  Span span;
  EXPECT_EQ(span.duration_ns(), kNone);
  span.start_ns = 10;
  span.end_ns = 5;
  EXPECT_EQ(span.duration_ns(), 0);
  span.start_ns = std::numeric_limits<std::int64_t>::min() + 1;
  span.end_ns = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(span.duration_ns(), std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace sonde::line
