#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/temp_folder.h"
#include "hub/fake_hub.h"
#include "hub/pull.h"

namespace helix::hub {

// Pulls from a hub of the test's own, with little patience.
class PullTest : public ::testing::Test {
  protected:
    PullTest() {
        for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY"}) {
            ::unsetenv(name);
        }
        options_.settings.cache = folder_.path() + "/cache";
        options_.patience.http.stall = std::chrono::seconds(1);
        options_.patience.first_pause = base::from_ms(5);
        options_.patience.longest_pause = base::from_ms(20);
        options_.check_model = [](const std::filesystem::path&, const std::string&) {
            return base::Status(base::Error{base::Errc::io, "no Helix is expected here"});
        };
        options_.note = [this](base::Duration pause, const std::string& why) {
            pauses_.push_back(pause);
            reasons_.push_back(why);
        };
    }

    PullOptions& at(FakeHub& hub) {
        options_.settings.endpoint = hub.endpoint();
        return options_;
    }
    base::Result<Pulled> pull_from(FakeHub& hub, const std::string& tag = "") {
        at(hub);
        ModelName name;
        name.owner = hub.repository.substr(0, hub.repository.find('/'));
        name.repo = hub.repository.substr(hub.repository.find('/') + 1);
        name.tag = tag;
        return pull(name, options_);
    }
    // What is wrong with a pull, "" when nothing is.
    std::string error_from(FakeHub& hub, const std::string& tag = "") {
        const auto pulled = pull_from(hub, tag);
        return pulled.ok() ? "" : pulled.error().message;
    }
    static std::string read(const std::filesystem::path& path) {
        std::ifstream file(path, std::ios::binary);
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    }
    static int count(const std::vector<FakeRequest>& requests, const std::string& header) {
        int found = 0;
        for (const FakeRequest& request : requests) found += request.headers.count(header) != 0;
        return found;
    }

    TempFolder folder_;
    PullOptions options_;
    std::vector<base::Duration> pauses_;
    std::vector<std::string> reasons_;
};

}  // namespace helix::hub
