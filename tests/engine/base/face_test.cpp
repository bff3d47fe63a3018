#include "engine/base/face.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

namespace sonde::base {
namespace {

Face named(const std::string& name) {
  Face face;
  face.name = name;
  face.advice["key"] = "advice of " + name;
  return face;
}

// Other tests speak in general words.
struct FaceTest : ::testing::Test {
  ~FaceTest() override { set_face({}); }
};

TEST_F(FaceTest, TheNewestAnswersAndOlderOnesStayReadable) {
  set_face(named("first"));
  const Face& first = face();
  set_face(named("second"));
  EXPECT_EQ(face().name, "second");
  EXPECT_EQ(first.advise("key"), "advice of first");
}

TEST_F(FaceTest, OneThatComesBackIsTheSameObject) {
  set_face(named("one"));
  const Face* one = &face();
  for (int i = 0; i < 100; ++i) {
    set_face(named("other"));
    set_face(named("one"));
  }
  EXPECT_EQ(&face(), one);
}

TEST_F(FaceTest, CanBeReadInAChildThatIsForkedWhileItChanges) {
  std::atomic<bool> over{false};
  std::thread changes([&] {
    for (int i = 0; !over.load(); ++i) set_face(named("face " + std::to_string(i % 50)));
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    ASSERT_NE(child, -1);
    if (child == 0) {
      ::alarm(10);  // a child that hangs fails
      ::_exit(face().advice.size() <= 1 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  over.store(true);
  changes.join();
}

}  // namespace
}  // namespace sonde::base
