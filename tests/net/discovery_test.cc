// What is said of coordinators on the local network. tests/cluster/discovery_test.py has the
// network itself.

#include "net/discovery.h"

#include <gtest/gtest.h>

#include <string>

namespace helix::net::discovery_test {
namespace {

TEST(Discovery, WhatIsSaidOfACoordinatorIsReadBack) {
    const ServiceFacts facts = {"llama 8B = fine", "0.1.0", "0123456789abcdef"};
    const std::vector<std::string> txt = txt_of(facts);
    EXPECT_EQ(txt, (std::vector<std::string>{"txtvers=1", "model=llama 8B = fine", "version=0.1.0",
                                             "key=0123456789abcdef"}));
    const ServiceFacts read = facts_of(txt);
    EXPECT_EQ(read.model, facts.model);
    EXPECT_EQ(read.version, facts.version);
    EXPECT_EQ(read.fingerprint, facts.fingerprint);
    EXPECT_EQ(txt_of({"m", "v", ""}).size(), 3U) << "no key is said where there is none";
}

TEST(Discovery, WhatStrangersSayIsCutAndIgnored) {
    const ServiceFacts read = facts_of({"", "=", "model", "MODEL=x", "more=y",
                                        "version=" + std::string(1000, 'v'), std::string(1, '\0')});
    EXPECT_EQ(read.model, "");
    EXPECT_EQ(read.version, std::string(100, 'v'));
    EXPECT_EQ(read.fingerprint, "");
    for (const std::string& one : txt_of({std::string(1000, 'm'), "", ""})) {
        EXPECT_LT(one.size(), 256U) << "a string of a TXT record has a byte for its length";
    }
}

TEST(Discovery, NetworksOfContainersAndTheLoopbackAreLeftOut) {
    for (const char* name : {"lo", "docker0", "docker_gwbridge", "veth12ab34", "br-0123456789ab"}) {
        EXPECT_FALSE(is_lan_interface(name)) << name;
    }
    for (const char* name : {"eth0", "enp3s0", "wlan0", "br0", "lan1", "bond0"}) {
        EXPECT_TRUE(is_lan_interface(name)) << name;
    }
}

}  // namespace
}  // namespace helix::net::discovery_test
