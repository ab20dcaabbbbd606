#include <linnet/core/files/zip.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <zlib.h>

#include <linnet/core/files/utf8.h>

namespace linnet::detail {
namespace {

// The records of an archive: their signatures, and their sizes without the strings of variable length.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr int64_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;
constexpr uint32_t kIn64 = 0xFFFFFFFF;  // means that the number is in a 64-bit field instead
constexpr uint16_t kField64 = 1;        // the id of the field with 64-bit numbers
constexpr uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1, kUtf8 = 1 << 11, kVersion64 = 45;

/// The number at `offset` of a record.
template <class T>
T number_at(const std::string& record, int64_t offset) {
  T value = 0;
  std::memcpy(&value, record.data() + offset, sizeof value);
  return value;
}

/// The number as little-endian bytes.
template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

class ZipDirectory {
 public:
  ZipDirectory(std::ifstream& file, int64_t size, const FileErrors& errors)
      : file_(file), size_(size), errors_(errors) {}

  std::vector<ZipEntry> read() {
    find();
    // Each entry has two records, so the archive's size bounds the memory that the list of entries takes.
    if (count_ < 0 || begin_ < 0 || begin_ > size_ || count_ > size_ / (kLocalSize + kCentralSize)) {
      errors_.damaged(fmt::format("a list of {} entries from byte {} on, in {} bytes", count_, begin_, size_));
    }
    std::vector<ZipEntry> entries;
    entries.reserve(static_cast<size_t>(count_));
    for (int64_t i = 0, at = begin_; i < count_; ++i) entries.push_back(read_entry(at));
    std::vector<std::pair<int64_t, int64_t>> places;  // of each entry: the begin of its first record and its end
    places.reserve(entries.size());
    for (ZipEntry& entry : entries) {
      const int64_t first = entry.begin;
      const std::string local = bytes_at(first, kLocalSize, kLocal);
      const auto name = number_at<uint16_t>(local, 26);
      if (bytes_at(first + kLocalSize, name) != entry.name) {
        errors_.damaged(fmt::format("byte {}: '{}' has another name here", first, shortened(entry.name)));
      }
      entry.begin += kLocalSize + name + number_at<uint16_t>(local, 28);
      if (entry.packed > size_ - entry.begin) {
        errors_.damaged(fmt::format("byte {}: '{}' ends beyond the file", first, shortened(entry.name)));
      }
      places.emplace_back(first, entry.begin + entry.packed);
    }
    std::ranges::sort(places);
    for (size_t i = 1; i < places.size(); ++i) {
      if (places[i].first < places[i - 1].second) {
        errors_.damaged(fmt::format("byte {}: two entries overlap", places[i].first));
      }
    }
    return entries;
  }

 private:
  /// Reads a record; without `signature`, a part of one.
  std::string bytes_at(int64_t at, int64_t count, std::optional<uint32_t> signature = {}) {
    if (at < 0 || count > size_ - at) errors_.damaged(fmt::format("byte {}: the file ends too early", at));
    std::string bytes(static_cast<size_t>(count), '\0');
    if (!file_.seekg(at).read(bytes.data(), count)) errors_.damaged(fmt::format("byte {}: cannot be read", at));
    if (signature && number_at<uint32_t>(bytes, 0) != *signature) {
      errors_.damaged(fmt::format("byte {}: no record of a zip archive", at));
    }
    return bytes;
  }

  /// Finds the list of entries by the record at the file's end. A comment may follow that record.
  void find() {
    const int64_t tail_size = std::min(size_, kEndSize + int64_t{std::numeric_limits<uint16_t>::max()});
    const std::string tail = bytes_at(size_ - tail_size, tail_size);
    int64_t at = tail_size - kEndSize;
    const auto is_end = [&] {
      return number_at<uint32_t>(tail, at) == kEnd && number_at<uint16_t>(tail, at + 20) == tail_size - at - kEndSize;
    };
    while (at >= 0 && !is_end()) --at;
    if (at < 0) errors_.damaged(fmt::format("byte {}: no end of a zip archive", size_));
    count_ = number_at<uint16_t>(tail, at + 10);
    begin_ = number_at<uint32_t>(tail, at + 16);
    if (at < kLocator64Size || number_at<uint32_t>(tail, at - kLocator64Size) != kLocator64) return;
    const std::string end = bytes_at(number_at<int64_t>(tail, at - kLocator64Size + 8), kEnd64Size, kEnd64);
    count_ = number_at<int64_t>(end, 32);
    begin_ = number_at<int64_t>(end, 48);
  }

  /// Reads the list's record at `at`, and moves `at` past it. The result's `begin` is still the place of the entry's
  /// own record.
  ZipEntry read_entry(int64_t& at) {
    const std::string record = bytes_at(at, kCentralSize, kCentral);
    const auto name = number_at<uint16_t>(record, 28), extra = number_at<uint16_t>(record, 30);
    const std::string text = bytes_at(at + kCentralSize, name + extra);
    const auto method = number_at<uint16_t>(record, 10);
    ZipEntry entry{.name = text.substr(0, name),
                   .begin = number_at<uint32_t>(record, 42),
                   .packed = number_at<uint32_t>(record, 20),
                   .size = number_at<uint32_t>(record, 24),
                   .checksum = number_at<uint32_t>(record, 16),
                   .is_packed = method == kDeflated};
    const std::string shown = shortened(entry.name);
    if ((number_at<uint16_t>(record, 8) & kEncrypted) != 0 || (method != kStored && method != kDeflated)) {
      errors_.refused(
          fmt::format("'{}' is encrypted, or packed by another method than deflate; save it with "
                      "numpy.savez or numpy.savez_compressed",
                      shown));
    }
    for (int64_t field = name; field + 4 <= std::ssize(text);) {
      const int64_t end = field + 4 + number_at<uint16_t>(text, field + 2);
      int64_t value = field + 4;
      for (int64_t* number : {&entry.size, &entry.packed, &entry.begin}) {
        if (number_at<uint16_t>(text, field) != kField64 || *number != kIn64) continue;
        if (value + 8 > std::min(end, std::ssize(text))) errors_.damaged(fmt::format("byte {}: no 64-bit size", at));
        *number = number_at<int64_t>(text, value);
        value += 8;
      }
      field = end;
    }
    if (entry.size < 0 || entry.packed < 0 || entry.begin < 0 || (!entry.is_packed && entry.packed != entry.size)) {
      errors_.damaged(fmt::format("byte {}: the sizes of '{}'", at, shown));
    }
    at += kCentralSize + name + extra + number_at<uint16_t>(record, 32);  // the last field is a comment
    return entry;
  }

  std::ifstream& file_;
  int64_t size_;
  const FileErrors& errors_;
  int64_t count_ = 0, begin_ = 0;  // of the list
};

}  // namespace

std::vector<ZipEntry> zip_entries(std::ifstream& file, int64_t size, const FileErrors& errors) {
  if (size < kEndSize) errors.damaged(fmt::format("it has {} bytes", size));
  return ZipDirectory(file, size, errors).read();
}

struct ZipEntryReader::Inflater {
  Inflater() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw MemoryError("no memory to unpack an archive");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
  std::array<unsigned char, 1 << 16> input;
};

ZipEntryReader::ZipEntryReader(std::ifstream& file, const ZipEntry& entry, const FileErrors& errors)
    : file_(file), entry_(entry), errors_(errors), inflater_(entry.is_packed ? new Inflater : nullptr) {
  file_.seekg(entry_.begin);
}

ZipEntryReader::~ZipEntryReader() = default;

void ZipEntryReader::read(void* to, int64_t bytes) {
  if (bytes > entry_.size - done_) errors_.damaged(fmt::format("it ends at its byte {}, too early", entry_.size));
  auto* out = static_cast<unsigned char*>(to);
  if (inflater_)
    unpack(out, bytes);
  else if (!file_.read(static_cast<char*>(to), bytes))
    errors_.damaged(fmt::format("byte {}: cannot be read", entry_.begin + done_));
  done_ += bytes;
  checksum_ = static_cast<uint32_t>(crc32_z(checksum_, out, static_cast<size_t>(bytes)));
}

void ZipEntryReader::unpack(unsigned char* to, int64_t bytes) {
  constexpr int64_t kMost = 1 << 30;  // zlib counts in 32 bits
  z_stream& stream = inflater_->stream;
  for (int64_t left = bytes; left > 0;) {
    if (stream.avail_in == 0) {
      const int64_t count = std::min(std::ssize(inflater_->input), entry_.packed - packed_);
      if (!file_.read(reinterpret_cast<char*>(inflater_->input.data()), count)) errors_.damaged("it cannot be read");
      packed_ += count;
      stream.next_in = inflater_->input.data();
      stream.avail_in = static_cast<uInt>(count);
    }
    const int64_t most = std::min(left, kMost);
    stream.next_out = to;
    stream.avail_out = static_cast<uInt>(most);
    const int code = inflate(&stream, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw MemoryError("no memory to unpack an archive");
    const int64_t got = most - stream.avail_out;
    left -= got;
    to += got;
    if (left > 0 && code != Z_OK) {
      errors_.damaged(
          fmt::format("its packed bytes are wrong or end at byte {} of {}", done_ + bytes - left, entry_.size));
    }
  }
}

void ZipEntryReader::finish() {
  if (checksum_ != entry_.checksum) errors_.damaged("its checksum is wrong");
}

void ZipWriter::write(const std::string& bytes) {
  file_.write(bytes.data(), std::ssize(bytes));
  position_ += std::ssize(bytes);
}

void ZipWriter::add(const std::string& name, std::string_view head, const void* data, int64_t bytes) {
  const auto checksum_of = [](uint32_t before, const void* from, size_t count) {
    // Of a null pointer crc32_z gives the checksum of nothing, without `before`.
    return count == 0 ? before
                      : static_cast<uint32_t>(crc32_z(before, static_cast<const unsigned char*>(from), count));
  };
  const uint32_t checksum = checksum_of(checksum_of(0, head.data(), head.size()), data, static_cast<size_t>(bytes));
  const int64_t size = std::ssize(head) + bytes;
  constexpr uint16_t kNoTime = 0, kFirstDay = 1 << 5 | 1, kNoText = 0;  // 1 January 1980
  // Sizes are always in the 64-bit field, so that large and small entries are written in the same way.
  const std::string fields = little_endian(kVersion64) + little_endian(kUtf8) + little_endian(kStored) +
                             little_endian(kNoTime) + little_endian(kFirstDay) + little_endian(checksum) +
                             little_endian(kIn64) + little_endian(kIn64) +
                             little_endian(static_cast<uint16_t>(name.size()));
  const auto field64 = [](const std::string& numbers) {
    return little_endian(kField64) + little_endian(static_cast<uint16_t>(numbers.size())) + numbers;
  };
  const std::string sizes = little_endian(size) + little_endian(size);
  const std::string local = field64(sizes), central = field64(sizes + little_endian(position_));
  directory_ += little_endian(kCentral) + little_endian(kVersion64) + fields +
                little_endian(static_cast<uint16_t>(central.size())) + little_endian(kNoText) +
                little_endian(uint16_t{0}) + little_endian(uint16_t{0}) + little_endian(uint32_t{0}) +
                little_endian(kIn64) + name + central;
  ++entries_;
  write(little_endian(kLocal) + fields + little_endian(static_cast<uint16_t>(local.size())) + name + local);
  file_.write(head.data(), std::ssize(head));
  file_.write(data, bytes);
  position_ += size;
}

void ZipWriter::finish() {
  if (entries_ == 0) {  // NumPy recognises an empty archive by the end record, with which every archive ends
    write(little_endian(kEnd) + std::string(kEndSize - sizeof kEnd, '\0'));
    return;
  }
  const int64_t begin = position_, size = std::ssize(directory_);
  write(directory_);
  const int64_t end64 = position_;
  const uint32_t disk = 0;
  write(little_endian(kEnd64) + little_endian(kEnd64Size - 12) + little_endian(kVersion64) +
        little_endian(kVersion64) + little_endian(disk) + little_endian(disk) + little_endian(entries_) +
        little_endian(entries_) + little_endian(size) + little_endian(begin));
  write(little_endian(kLocator64) + little_endian(disk) + little_endian(end64) + little_endian(uint32_t{1}));
  write(little_endian(kEnd) + little_endian(disk) + std::string(4, '\xFF') + little_endian(kIn64) +
        little_endian(kIn64) + little_endian(uint16_t{0}));
}

}  // namespace linnet::detail
