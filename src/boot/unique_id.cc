#include "boot/unique_id.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/hash.h"
#include "base/thread.h"
#include "ronde.h"

namespace ronde {
namespace {

constexpr uint32_t kMagic = 0x444e4f52;  // "ROND"
constexpr uint8_t kFormat = 1;
constexpr size_t kSize = sizeof(UniqueId::bytes);
constexpr size_t kChecked = kSize - sizeof(uint32_t);  // the checksum is the last word

uint32_t checksum(const std::array<std::byte, kSize>& bytes) {
  const uint64_t hash = fnv1a({reinterpret_cast<const char*>(bytes.data()), kChecked});
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

void put_addresses(Writer& out, const std::vector<Address>& addresses, size_t room) {
  Writer list;
  uint8_t count = 0;
  size_t used = 1;
  for (const Address& address : addresses) {
    const size_t size = address.family == 4 ? 4 : 16;
    if (used + 1 + size > room) continue;  // a smaller one may still fit
    used += 1 + size;
    ++count;
    list.put(address.family);
    for (size_t i = 0; i < size; ++i) list.put(address.ip[i]);
  }
  out.put(count);
  for (const std::byte byte : list.take()) out.put(byte);
}

std::vector<Address> get_addresses(Reader& in, uint16_t port) {
  std::vector<Address> addresses;
  const auto count = in.get<uint8_t>();
  for (int i = 0; i < count && in.ok(); ++i) {
    Address address;
    address.family = in.get<uint8_t>();
    address.port = port;
    for (size_t byte = 0; byte < (address.family == 4 ? 4u : 16u); ++byte) address.ip[byte] = in.get<uint8_t>();
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

PublicId public_id(const Secret& secret) { return keyed_hash(secret, "public name", {}); }

Result<UniqueId> encode_id(const IdInfo& info) {
  Writer out;
  out.put(kMagic).put(kFormat).put(static_cast<uint8_t>(info.fixed.empty() ? 0 : 1)).put(static_cast<uint16_t>(info.protocol));
  out.put(info.version).put(info.secret).put(info.root.process).put(info.root.host).put(info.root.pid);
  constexpr size_t kHead = 48;  // bytes so far
  if (!info.fixed.empty()) {
    if (kHead + 4 + info.fixed.size() > kChecked) {
      return fail(Code::invalid_argument, fmt::format("NCCL_COMM_ID={} is too long for a unique id: at most {} characters",
                                                      info.fixed, kChecked - kHead - 4));
    }
    out.text(info.fixed);
  } else {
    out.put(info.root.addresses.empty() ? uint16_t{0} : info.root.addresses[0].port);
    put_addresses(out, info.root.addresses, kChecked - kHead - 2);
  }
  UniqueId id;
  const Bytes packed = out.take();
  std::copy(packed.begin(), packed.end(), id.bytes.begin());
  const uint32_t sum = checksum(id.bytes);
  std::memcpy(id.bytes.data() + kChecked, &sum, sizeof sum);
  return id;
}

Result<IdInfo> decode_id(const UniqueId& id) {
  if (std::all_of(id.bytes.begin(), id.bytes.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return fail(Code::invalid_argument,
                "the unique id is all zeros; send what ncclGetUniqueId returned on one rank to all ranks");
  }
  Reader in(id.bytes);
  const auto magic = in.get<uint32_t>();
  const auto format = in.get<uint8_t>();
  const auto flags = in.get<uint8_t>();
  IdInfo info;
  info.protocol = in.get<uint16_t>();
  info.version = in.get<uint32_t>();
  if (magic != kMagic) {
    return fail(Code::invalid_argument,
                "these 128 bytes are no unique id of this library; was it made by another one, or sent damaged?");
  }
  uint32_t sum = 0;
  std::memcpy(&sum, id.bytes.data() + kChecked, sizeof sum);
  if (sum != checksum(id.bytes)) {
    return fail(Code::invalid_argument,
                "the unique id is damaged (its checksum does not fit); all 128 bytes must be sent, as binary data");
  }
  if (format != kFormat) {
    return fail(Code::invalid_argument,
                fmt::format("the unique id has format {} of library version {}, this is version {} with format {}; "
                            "use one version on all ranks",
                            format, info.version, RONDE_VERSION_CODE, kFormat));
  }
  info.secret = in.get<Secret>();
  info.root.process = in.get<uint64_t>();
  info.root.host = in.get<uint64_t>();
  info.root.pid = in.get<uint32_t>();
  if (flags != 0) {
    info.fixed = in.text();
  } else {
    const auto port = in.get<uint16_t>();
    info.root.addresses = get_addresses(in, port);
  }
  if (!in.ok()) return fail(Code::invalid_argument, "the unique id is damaged: its parts exceed its size");
  return info;
}

uint64_t host_identity(const Config& config) {
  const std::string& given = config.text(Setting::hostid);
  return given.empty() ? fnv1a(host_name(), machine_identity()) : fnv1a(given);
}

uint64_t machine_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return fnv1a(boot.empty() ? host_name() : boot);
}

}  // namespace ronde
