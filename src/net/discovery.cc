#include "net/discovery.h"

#include <avahi-common/alternative.h>
#include <avahi-common/domain.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/simple-watch.h>
#include <avahi-common/thread-watch.h>
#include <avahi-core/core.h>
#include <avahi-core/log.h>
#include <avahi-core/lookup.h>
#include <avahi-core/publish.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "base/escape.h"
#include "base/log.h"
#include "net/addresses.h"

namespace helix::net {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr const char* kServiceType = "_helix._tcp";
constexpr const char* kTxtVersion = "txtvers=1";
constexpr std::size_t kMostValueBytes = 100;
constexpr std::size_t kMostFound = 64;
// After the last answer; the question is asked a second time after 1 s.
constexpr std::chrono::milliseconds kQuiet{1200};

using TextList = std::unique_ptr<AvahiStringList, decltype(&avahi_string_list_free)>;

TextList list_of(const std::vector<std::string>& texts) {
    AvahiStringList* all = nullptr;
    for (const std::string& text : texts) all = avahi_string_list_add(all, text.c_str());
    return {all, &avahi_string_list_free};
}

std::vector<std::string> texts_of(AvahiStringList* list) {
    std::vector<std::string> out;
    for (; list != nullptr; list = avahi_string_list_get_next(list)) {
        const auto* text = reinterpret_cast<const char*>(avahi_string_list_get_text(list));
        out.emplace_back(text, avahi_string_list_get_size(list));
    }
    return out;
}

std::vector<std::string> denied_interfaces() {
    std::set<std::string> names;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return {};
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        if (!is_lan_interface(one->ifa_name)) names.insert(one->ifa_name);
    }
    return {names.begin(), names.end()};
}

struct LocalAddress {
    AvahiIfIndex interface;
    std::string number;
};

// This machine's addresses on the network at which what listens on host is reached.
std::vector<LocalAddress> addresses_for(const std::string& host) {
    const std::vector<std::string> reachable = reachable_addresses(host);
    std::vector<LocalAddress> out;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return {};
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || !is_lan_interface(one->ifa_name)) continue;
        const int family = one->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        std::string number = number_of(one->ifa_addr);
        if (std::find(reachable.begin(), reachable.end(), number) == reachable.end()) continue;
        out.push_back(
            {static_cast<AvahiIfIndex>(::if_nametoindex(one->ifa_name)), std::move(number)});
    }
    return out;
}

// The interface that has this address; that of all when there is none.
AvahiIfIndex interface_of(const std::string& host) {
    const std::vector<LocalAddress> addresses = addresses_for(host);
    if (is_every_address(host) || addresses.empty()) return AVAHI_IF_UNSPEC;
    return addresses.front().interface;
}

// What the library has to say is for those who look closely.
void log_of_library(AvahiLogLevel, const char* text) {
    LOG_DEBUG("mDNS: {}", base::escaped(text));
}

// A name in .local that is nobody else's: the machine's own may be announced by a daemon.
std::string random_host_name() {
    CHECK(sodium_init() >= 0);
    return fmt::format("helix-{:08x}", randombytes_random());
}

// A responder and resolver of mDNS on the interfaces of the network.
AvahiServer* new_server(const AvahiPoll* poll, bool publishes, bool v4, bool v6,
                        AvahiServerCallback callback, void* user, int& error) {
    avahi_set_log_function(&log_of_library);
    AvahiServerConfig config;
    avahi_server_config_init(&config);
    avahi_free(config.host_name);
    config.host_name = avahi_strdup(random_host_name().c_str());
    config.use_ipv4 = v4 ? 1 : 0;
    config.use_ipv6 = v6 ? 1 : 0;
    config.deny_interfaces = list_of(denied_interfaces()).release();
    config.publish_hinfo = 0;
    config.publish_workstation = 0;
    config.publish_domain = 0;
    // It would say which names our addresses have, too, and so do other responders of this machine.
    config.publish_addresses = 0;
    config.disable_publishing = publishes ? 0 : 1;
    config.enable_wide_area = 0;
    AvahiServer* server = avahi_server_new(poll, &config, callback, user, &error);
    avahi_server_config_free(&config);
    return server;
}

Error unavailable(int error) {
    return {Errc::unavailable,
            fmt::format("the local network cannot be asked (mDNS): {}", avahi_strerror(error))};
}

}  // namespace

bool is_lan_interface(std::string_view name) {
    for (const std::string_view begin : {"docker", "veth", "br-"}) {
        if (name.starts_with(begin)) return false;
    }
    return name != "lo";
}

std::vector<std::string> txt_of(const ServiceFacts& facts) {
    const auto cut = [](const std::string& text) { return text.substr(0, kMostValueBytes); };
    std::vector<std::string> out = {kTxtVersion, "model=" + cut(facts.model),
                                    "version=" + cut(facts.version)};
    if (!facts.fingerprint.empty()) out.push_back("key=" + cut(facts.fingerprint));
    return out;
}

ServiceFacts facts_of(const std::vector<std::string>& txt) {
    ServiceFacts facts;
    for (const std::string& one : txt) {
        const std::size_t equals = std::min(one.find('='), one.size());
        const std::string name = one.substr(0, equals);
        const std::string value =
            equals < one.size() ? one.substr(equals + 1, kMostValueBytes) : std::string();
        if (name == "model") facts.model = value;
        if (name == "version") facts.version = value;
        if (name == "key") facts.fingerprint = value;
    }
    return facts;
}

// ---- announcing

struct Announcer::Impl {
    explicit Impl(Announcement a) : announcement(std::move(a)) {}

    // All that follows is called by the poll's thread, or before it runs.
    static void on_server(AvahiServer* server, AvahiServerState state, void* user) {
        auto* impl = static_cast<Impl*>(user);
        if (state == AVAHI_SERVER_RUNNING) impl->publish(server);
        if (state == AVAHI_SERVER_COLLISION) {
            if (impl->group != nullptr) avahi_s_entry_group_reset(impl->group);
            avahi_server_set_host_name(server, random_host_name().c_str());
        }
        if (state == AVAHI_SERVER_FAILURE) {
            LOG_WARN("not announced on the local network any more: {}",
                     avahi_strerror(avahi_server_errno(server)));
        }
    }
    static void on_group(AvahiServer* server, AvahiSEntryGroup* group, AvahiEntryGroupState state,
                         void* user) {
        auto* impl = static_cast<Impl*>(user);
        if (state == AVAHI_ENTRY_GROUP_ESTABLISHED) {
            LOG_INFO("announced on the local network as \"{}\"",
                     base::escaped(impl->announcement.name));
        }
        if (state != AVAHI_ENTRY_GROUP_COLLISION) return;
        impl->group = group;
        impl->rename();
        avahi_s_entry_group_reset(group);
        impl->publish(server);
    }
    void rename() {
        char* other = avahi_alternative_service_name(announcement.name.c_str());
        announcement.name = other;
        avahi_free(other);
    }
    // The addresses are those at this time.
    int add_addresses(AvahiServer* responder) const {
        for (const LocalAddress& one : addresses_for(announcement.host)) {
            AvahiAddress address = {};
            if (avahi_address_parse(one.number.c_str(), AVAHI_PROTO_UNSPEC, &address) == nullptr) {
                continue;
            }
            const int error =
                avahi_server_add_address(responder, group, one.interface, AVAHI_PROTO_UNSPEC,
                                         AVAHI_PUBLISH_NO_REVERSE, nullptr, &address);
            if (error != AVAHI_OK) return error;
        }
        return AVAHI_OK;
    }
    void publish(AvahiServer* responder) {
        if (group == nullptr) group = avahi_s_entry_group_new(responder, &Impl::on_group, this);
        if (group == nullptr || avahi_s_entry_group_is_empty(group) == 0) return;
        const TextList txt = list_of(txt_of(announcement.facts));
        int error = AVAHI_OK;
        for (int tries = 0; tries < 10; ++tries) {
            error = avahi_server_add_service_strlst(
                responder, group, interface_of(announcement.host), AVAHI_PROTO_UNSPEC,
                AvahiPublishFlags(0), announcement.name.c_str(), kServiceType, nullptr, nullptr,
                announcement.port, txt.get());
            if (error != AVAHI_ERR_COLLISION) break;
            rename();
        }
        if (error == AVAHI_OK) error = add_addresses(responder);
        if (error == AVAHI_OK) error = avahi_s_entry_group_commit(group);
        if (error != AVAHI_OK) {
            LOG_WARN("not announced on the local network: {}", avahi_strerror(error));
        }
    }

    Announcement announcement;
    AvahiThreadedPoll* poll = nullptr;
    AvahiServer* server = nullptr;
    AvahiSEntryGroup* group = nullptr;
};

Announcer::Announcer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Announcer::~Announcer() {
    if (impl_->poll != nullptr) avahi_threaded_poll_stop(impl_->poll);
    if (impl_->server != nullptr) avahi_server_free(impl_->server);
    if (impl_->poll != nullptr) avahi_threaded_poll_free(impl_->poll);
}

Result<std::unique_ptr<Announcer>> Announcer::start(Announcement announcement) {
    const bool v6 = announcement.host.find(':') != std::string::npos;
    const bool v4 = !v6 || is_every_address(announcement.host);
    std::unique_ptr<Announcer> made(new Announcer(std::make_unique<Impl>(std::move(announcement))));
    Impl& impl = *made->impl_;
    impl.poll = avahi_threaded_poll_new();
    if (impl.poll == nullptr) return unavailable(AVAHI_ERR_NO_MEMORY);
    int error = AVAHI_OK;
    impl.server = new_server(avahi_threaded_poll_get(impl.poll), true, v4, v6, &Impl::on_server,
                             &impl, error);
    if (impl.server == nullptr) return unavailable(error);
    if (avahi_threaded_poll_start(impl.poll) < 0) return unavailable(AVAHI_ERR_FAILURE);
    return made;
}

// ---- finding

namespace {

struct Search {
    std::vector<FoundCoordinator> found;
    std::chrono::steady_clock::time_point last_news = std::chrono::steady_clock::now();
    int open = 0;  // services that are looked up

    void add(FoundCoordinator one, const std::string& address) {
        last_news = std::chrono::steady_clock::now();
        const auto known =
            std::find_if(found.begin(), found.end(), [&](const FoundCoordinator& other) {
                return other.name == one.name && other.port == one.port &&
                       other.facts.fingerprint == one.facts.fingerprint;
            });
        if (known == found.end()) {
            if (found.size() == kMostFound) return;
            one.addresses = {address};
            found.push_back(std::move(one));
            return;
        }
        auto& addresses = known->addresses;
        const bool new_one =
            std::find(addresses.begin(), addresses.end(), address) == addresses.end();
        if (new_one && addresses.size() < kMostFound) addresses.push_back(address);
    }
};

void on_resolved(AvahiSServiceResolver* resolver, AvahiIfIndex, AvahiProtocol,
                 AvahiResolverEvent event, const char* name, const char*, const char*, const char*,
                 const AvahiAddress* address, std::uint16_t port, AvahiStringList* txt,
                 AvahiLookupResultFlags, void* user) {
    auto* search = static_cast<Search*>(user);
    --search->open;
    if (event == AVAHI_RESOLVER_FOUND && address != nullptr && port != 0) {
        std::array<char, AVAHI_ADDRESS_STR_MAX> number = {};
        avahi_address_snprint(number.data(), number.size(), address);
        const std::string text = number.data();
        // Those of one link only cannot be used without saying which one.
        if (!text.starts_with("fe80:"))
            search->add({name, {}, port, facts_of(texts_of(txt))}, text);
    }
    avahi_s_service_resolver_free(resolver);
}

struct Browse {
    AvahiServer* server = nullptr;
    Search search;
};

void on_browsed(AvahiSServiceBrowser*, AvahiIfIndex interface, AvahiProtocol protocol,
                AvahiBrowserEvent event, const char* name, const char* type, const char* domain,
                AvahiLookupResultFlags, void* user) {
    auto* browse = static_cast<Browse*>(user);
    if (event != AVAHI_BROWSER_NEW || browse->search.open >= static_cast<int>(kMostFound)) return;
    browse->search.last_news = std::chrono::steady_clock::now();
    if (avahi_s_service_resolver_new(browse->server, interface, protocol, name, type, domain,
                                     AVAHI_PROTO_UNSPEC, AvahiLookupFlags(0), &on_resolved,
                                     &browse->search) != nullptr) {
        ++browse->search.open;
    }
}

void ignore_state(AvahiServer*, AvahiServerState, void*) {}

}  // namespace

Result<std::vector<FoundCoordinator>> find_coordinators(std::chrono::milliseconds time) {
    using Clock = std::chrono::steady_clock;
    const std::unique_ptr<AvahiSimplePoll, decltype(&avahi_simple_poll_free)> poll(
        avahi_simple_poll_new(), &avahi_simple_poll_free);
    if (poll == nullptr) return unavailable(AVAHI_ERR_NO_MEMORY);
    Browse browse;
    int error = AVAHI_OK;
    const std::unique_ptr<AvahiServer, decltype(&avahi_server_free)> server(
        new_server(avahi_simple_poll_get(poll.get()), false, true, true, &ignore_state, nullptr,
                   error),
        &avahi_server_free);
    if (server == nullptr) return unavailable(error);
    browse.server = server.get();
    if (avahi_s_service_browser_new(server.get(), AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC, kServiceType,
                                    nullptr, AvahiLookupFlags(0), &on_browsed,
                                    &browse) == nullptr) {
        return unavailable(avahi_server_errno(server.get()));
    }
    const Clock::time_point end = Clock::now() + time;
    while (Clock::now() < end) {
        const Search& search = browse.search;
        if (!search.found.empty() && search.open == 0 &&
            Clock::now() - search.last_news >= kQuiet) {
            break;
        }
        if (avahi_simple_poll_iterate(poll.get(), 50) != 0) break;
    }
    std::vector<FoundCoordinator> found = browse.search.found;
    std::sort(found.begin(), found.end(),
              [](const FoundCoordinator& a, const FoundCoordinator& b) { return a.name < b.name; });
    return found;
}

}  // namespace helix::net
