#include <algorithm>
#include <initializer_list>
#include <map>

#include <linnet/nn/metrics.h>

/// The steps of Porter, "An algorithm for suffix stripping", Program 14 (1980), with their numbers there. [NLTK]
/// marks the changes that NLTK's documentation lists; some of them are Porter's own later changes.

namespace linnet::nn {
namespace {

/// A suffix and its replacement.
struct Rule {
  std::string_view suffix, replacement;
};

/// A 'v' for every vowel of the text and a 'c' for every consonant. A y after a consonant is a vowel.
std::string vowels_and_consonants(std::string_view text) {
  std::string kinds;
  for (const char letter : text) {
    const bool is_vowel =
        std::string_view("aeiou").find(letter) != std::string_view::npos || (letter == 'y' && kinds.ends_with('c'));
    kinds += is_vowel ? 'v' : 'c';
  }
  return kinds;
}

/// The measure m: every text can be written as [C](VC)^m[V].
int64_t measure(std::string_view text) {
  const std::string kinds = vowels_and_consonants(text);
  int64_t m = 0;
  for (size_t i = 1; i < kinds.size(); ++i) m += kinds[i - 1] == 'v' && kinds[i] == 'c' ? 1 : 0;
  return m;
}

bool has_vowel(std::string_view text) { return vowels_and_consonants(text).find('v') != std::string::npos; }

/// *d: the text ends with a double consonant.
bool ends_with_double_consonant(std::string_view text) {
  const size_t n = text.size();
  return n >= 2 && text[n - 1] == text[n - 2] && vowels_and_consonants(text).ends_with('c');
}

/// *o: the text ends with consonant, vowel and consonant, the last of them not w, x or y.
bool ends_with_short_syllable(std::string_view text) {
  const std::string kinds = vowels_and_consonants(text);
  if (kinds == "vc") return true;  // [NLTK] so that "are" keeps its e
  return kinds.ends_with("cvc") && std::string_view("wxy").find(text.back()) == std::string_view::npos;
}

std::string_view without_last(std::string_view text, size_t letters) { return text.substr(0, text.size() - letters); }

/// Replaces the first suffix of the list that the word has, if the measure of the part before it is above `least`.
std::string replaced(const std::string& word, std::initializer_list<Rule> rules, int64_t least) {
  for (const auto& [suffix, replacement] : rules) {
    if (!word.ends_with(suffix)) continue;
    const std::string_view stem = without_last(word, suffix.size());
    return measure(stem) > least ? std::string(stem).append(replacement) : word;
  }
  return word;
}

/// Plurals.
std::string step_1a(const std::string& word) {
  if (word.ends_with("ies") && word.size() == 4) return std::string(without_last(word, 1));  // [NLTK] dies → die
  if (word.ends_with("sses") || word.ends_with("ies")) return std::string(without_last(word, 2));
  if (word.ends_with("s") && !word.ends_with("ss")) return std::string(without_last(word, 1));
  return word;
}

/// Restores a stem after -ed or -ing was removed: hop(p)ing → hop, fil(e)ing → file.
std::string restored(std::string stem) {
  if (stem.ends_with("at") || stem.ends_with("bl") || stem.ends_with("iz")) return stem + "e";
  if (ends_with_double_consonant(stem)) {
    if (std::string_view("lsz").find(stem.back()) == std::string_view::npos) stem.pop_back();
    return stem;
  }
  return measure(stem) == 1 && ends_with_short_syllable(stem) ? stem + "e" : stem;
}

/// Past participles.
std::string step_1b(const std::string& word) {
  if (word.ends_with("ied")) return std::string(without_last(word, word.size() == 4 ? 1 : 2));  // [NLTK] died → die
  if (word.ends_with("eed")) return measure(without_last(word, 3)) > 0 ? std::string(without_last(word, 1)) : word;
  for (const std::string_view suffix : {"ed", "ing"}) {
    if (!word.ends_with(suffix)) continue;
    const std::string_view stem = without_last(word, suffix.size());
    if (has_vowel(stem)) return restored(std::string(stem));
  }
  return word;
}

/// A final y becomes i. [NLTK] It does so only after a consonant that is not the first letter: happy, but not enjoy.
std::string step_1c(std::string word) {
  if (word.size() > 2 && word.ends_with('y') && vowels_and_consonants(without_last(word, 1)).ends_with('c')) {
    word.back() = 'i';
  }
  return word;
}

/// Replaces double suffixes by single ones.
std::string step_2(const std::string& word) {
  // [NLTK] Without -ly, a word in -ally may end in another suffix of this step: relationally → relational → relate.
  if (word.ends_with("alli") && measure(without_last(word, 4)) > 0) return step_2(std::string(without_last(word, 2)));
  if (word.ends_with("logi")) return replaced(word, {{"ogi", "og"}}, 0);  // [NLTK] its l counts for the measure
  // [NLTK] -bli instead of -abli, and -fulli.
  return replaced(word,
                  {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"},   {"izer", "ize"},
                   {"bli", "ble"},     {"entli", "ent"},   {"eli", "e"},     {"ousli", "ous"},   {"ization", "ize"},
                   {"ation", "ate"},   {"ator", "ate"},    {"alism", "al"},  {"iveness", "ive"}, {"fulness", "ful"},
                   {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"}, {"biliti", "ble"},  {"fulli", "ful"}},
                  0);
}

/// -ic-, -ful, -ness and the like.
std::string step_3(const std::string& word) {
  return replaced(
      word,
      {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""}},
      0);
}

/// Removes the last suffix of longer words.
std::string step_4(const std::string& word) {
  if (word.ends_with("ion") && !word.ends_with("sion") && !word.ends_with("tion")) return word;
  return replaced(word,
                  {{"al", ""},
                   {"ance", ""},
                   {"ence", ""},
                   {"er", ""},
                   {"ic", ""},
                   {"able", ""},
                   {"ible", ""},
                   {"ant", ""},
                   {"ement", ""},
                   {"ment", ""},
                   {"ent", ""},
                   {"ion", ""},
                   {"ou", ""},
                   {"ism", ""},
                   {"ate", ""},
                   {"iti", ""},
                   {"ous", ""},
                   {"ive", ""},
                   {"ize", ""}},
                  1);
}

/// Removes a final e, and one l of a final ll.
std::string step_5(std::string word) {
  if (word.ends_with('e')) {
    const std::string_view stem = without_last(word, 1);
    const int64_t m = measure(stem);
    if (m > 1 || (m == 1 && !ends_with_short_syllable(stem))) word.pop_back();
  }
  if (word.ends_with("ll") && measure(without_last(word, 1)) > 1) word.pop_back();
  return word;
}

}  // namespace

std::string porter_stem(std::string_view word) {
  std::string lower(word);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  // [NLTK] Words that the steps would get wrong, and their stems.
  static const std::map<std::string_view, std::string_view> kIrregular{
      {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
      {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
      {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
      {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"}};
  if (const auto found = kIrregular.find(lower); found != kIrregular.end()) return std::string(found->second);
  if (lower.size() <= 2) return lower;  // [NLTK] such as "as" and "is"
  return step_5(step_4(step_3(step_2(step_1c(step_1b(step_1a(lower)))))));
}

}  // namespace linnet::nn
