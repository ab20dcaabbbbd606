#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/file_errors.h>

/// The part of the zip format that .npz files need: entries that are stored or compressed by deflate, of any size
/// (zip64).
///
/// Source: PKWARE's APPNOTE.TXT, 6.3.10.

namespace linnet::detail {

/// A file in an archive.
struct ZipEntry {
  std::string name = {};
  int64_t begin = 0;       ///< where its bytes begin in the archive
  int64_t packed = 0;      ///< the number of its bytes in the archive
  int64_t size = 0;        ///< the number of its bytes after decompression
  uint32_t checksum = 0;   ///< the CRC-32 of its bytes after decompression
  bool is_packed = false;  ///< whether it is compressed, by deflate
};

/// The entries of an archive of `size` bytes. All lie within the archive, and none overlap.
std::vector<ZipEntry> zip_entries(std::ifstream& file, int64_t size, const FileErrors& errors);

/// Reads an entry from its beginning on, decompressed.
class ZipEntryReader {
 public:
  ZipEntryReader(std::ifstream& file, const ZipEntry& entry, const FileErrors& errors);
  ~ZipEntryReader();
  ZipEntryReader(const ZipEntryReader&) = delete;
  ZipEntryReader& operator=(const ZipEntryReader&) = delete;

  void read(void* to, int64_t bytes);
  /// Checks the checksum after all bytes were read.
  void finish();

 private:
  struct Inflater;
  void unpack(unsigned char* to, int64_t bytes);

  std::ifstream& file_;
  const ZipEntry& entry_;
  const FileErrors& errors_;
  int64_t done_ = 0;    // bytes decompressed so far
  int64_t packed_ = 0;  // bytes read from the archive so far
  uint32_t checksum_ = 0;
  std::unique_ptr<Inflater> inflater_;  // null if the entry is not compressed
};

/// Writes an archive of stored entries.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  /// Adds an entry that consists of `head` and then `bytes` bytes at `data`.
  void add(const std::string& name, std::string_view head, const void* data, int64_t bytes);
  /// Writes the list of the entries, which ends the archive.
  void finish();

 private:
  void write(const std::string& bytes);

  AtomicFile& file_;
  int64_t position_ = 0, entries_ = 0;
  std::string directory_;  // the list of the entries so far
};

}  // namespace linnet::detail
