#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/examples/run/tiny_run.h"

namespace linnet::examples::test {

/// The flags of small runs of each program that trains, on data of this folder.
class EveryProgram {
 public:
  static inline const Arguments kNames{"train_shakespeare", "train_text", "train_mnist", "lra",     "classify",
                                       "summarise",         "recommend",  "convert",     "compare", "ablations"};

  EveryProgram() {
    std::filesystem::create_directories(shop_ / "listops");
    std::filesystem::create_directories(shop_ / "texts");
    for (const std::string part : {"train", "val", "test"}) {
      std::string expressions = "Source\tTarget\n", texts;
      for (int i = 0; i < 200; ++i) {  // many batches, whose sums depend on their order
        const std::string a = std::to_string(i % 10), b = std::to_string(i / 20);
        expressions += "( ( ( [MAX " + a + " ) " + b + " ) ] )\t" + std::max(a, b) + "\n";
        texts += (i % 3 == 0 ? "few\tthere are " : "many\tI see ") + a + " of " + b + "\n";
      }
      linnet::test::write_bytes(shop_ / ("listops/basic_" + part + ".tsv"), expressions);
      linnet::test::write_bytes(shop_ / ("texts/" + (part == "val" ? "dev" : part) + ".tsv"), texts);
    }
  }

  /// The flags for the folder `out`.
  Arguments flags(const std::string& program, const std::string& out) const {
    const Arguments all{"--shards", "8",         "--steps", "4",  "--eval-every", "2",
                        "--layers", "1",         "--width", "16", "--heads",      "2",
                        "--out",    shop_ / out, "--batch", "16", "--lr",         "0.01"};
    const Arguments users{"--users", "60", "--test-users", "20",        "--width",        "16", "--heads", "2",
                          "--batch", "8",  "--out",        shop_ / out, "--eval-batches", "1"};
    if (program == "train_mnist") return all + Arguments{"--patch", "7"};
    if (program == "lra") return all + Arguments{"--task", "listops", "--data", shop_ / "listops"};
    if (program == "classify") return all + Arguments{"--task", "own-texts", "--data", shop_ / "texts"};
    if (program == "summarise") return all + Arguments{"--task", "copy", "--decoder-layers", "1"};
    if (program == "recommend") return users;
    if (program == "convert") return users + Arguments{"--attention", "fastformer"};
    const Arguments text = shop_.tiny(out) + all + Arguments{"--batch", "8"};
    if (program == "compare") return text + Arguments{"--attention", "softmax,fastformer"};
    if (program == "ablations") return Arguments{"interaction"} + text + Arguments{"--seeds", "1"};
    return text;
  }
  /// The folder of the program's first run, in --out.
  static std::string first_run(const std::string& program) {
    if (program == "recommend" || program == "convert") return "fastformer";
    if (program == "compare") return "softmax";
    return program == "ablations" ? "interaction/product-1337" : "";
  }
  std::filesystem::path operator/(const std::string& name) const { return shop_ / name; }

 private:
  Workshop shop_;
};

}  // namespace linnet::examples::test
