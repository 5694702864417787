#include "cli/coordinator_choice.h"

#include <gtest/gtest.h>

namespace helix::cli::coordinator_choice_test {
namespace {

TEST(CoordinatorChoice, EachIsShownWithWhereItIsWhatItServesAndItsKey) {
    const std::vector<net::FoundCoordinator> found = {
        {"hall", {"192.0.2.7", "2001:db8::7"}, 8080, {"llama", "0.1.0", "0123456789abcdef"}},
        {"attic\x1b[2J\n", {"192.0.2.8"}, 81, {"", "", ""}}};
    EXPECT_EQ(list_coordinators(found),
              "  1  hall  192.0.2.7:8080, [2001:db8::7]:8080  llama  key 0123456789abcdef\n"
              "  2  attic\\x1b[2J\\n  192.0.2.8:81  ?  without keys\n");
}

TEST(CoordinatorChoice, OneIsTakenByYesAndOneOfSeveralByItsNumber) {
    for (const char* yes : {"", "y", "Y", "yes", " 1 ", "\r"}) {
        EXPECT_EQ(typed_choice(yes, 1), 1) << yes;
    }
    EXPECT_EQ(typed_choice("2", 3), 2);
    for (const char* no : {"n", "no", "N"}) {
        EXPECT_EQ(typed_choice(no, 1), 0) << no;
        EXPECT_EQ(typed_choice(no, 3), 0) << no;
    }
    for (const char* wrong : {"", "y", "0", "4", "-1", "2x", "99999999999999"}) {
        EXPECT_EQ(typed_choice(wrong, 3), -1) << wrong;
    }
}

}  // namespace
}  // namespace helix::cli::coordinator_choice_test
