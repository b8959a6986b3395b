#include "config/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <unordered_map>

#include "base/parse_error.h"

namespace divvy::config {
namespace {

Place place_of(const YAML::Mark& mark) {
  return mark.is_null() ? Place{} : Place{mark.line + 1, mark.column + 1};
}

// Ends the reading of a text of which the rest cannot matter. Caught in read_yaml().
struct TooDeep {
  Problem problem;
};

// Builds the tree from what the parser reports, instead of letting the library build one: aliases
// are seen here and never followed, and a key that is there twice is not lost.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(YamlDocument& document) : document_(document) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(make(YamlNode::Kind::kNothing, mark));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    problem(mark, "an alias (*name) is not understood here; write the value out");
    add(make(YamlNode::Kind::kNothing, mark));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    YamlNode node = make(YamlNode::Kind::kWord, mark);
    node.word = value;
    node.quoted = tag == "!";
    // Plain words that YAML reads as nothing.
    if (!node.quoted && (value.empty() || value == "~" || value == "null")) {
      node.kind = YamlNode::Kind::kNothing;
      node.word.clear();
    }
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    open(make(YamlNode::Kind::kList, mark));
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    open(make(YamlNode::Kind::kMap, mark));
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or map that is being filled, and whether the next value of a map is its key.
  struct Open {
    YamlNode node;
    bool key_is_next = true;
    bool dropped = false;                        // The key of the value that comes next was refused
    std::unordered_map<std::string, int> lines;  // In which a key was seen first
  };

  static YamlNode make(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.at = place_of(mark);
    return node;
  }

  void problem(const YAML::Mark& mark, std::string what) {
    document_.problems.push_back({place_of(mark), std::move(what)});
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) problem(mark, "an anchor (&name) is not understood here; leave it out");
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      problem(mark, "a tag (!name) is not understood here; leave it out");
    }
  }

  void open(YamlNode node) {
    if (static_cast<int>(stack_.size()) >= kMaxYamlDepth) {
      throw TooDeep{
          {node.at, fmt::format("this is more than {} levels deep; no setting is", kMaxYamlDepth)}};
    }
    stack_.emplace_back();
    stack_.back().node = std::move(node);
  }

  void close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    // The value of a key that was refused has no key to belong to.
    if (node.kind == YamlNode::Kind::kMap) node.items.resize(node.keys.size());
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (stack_.empty()) {
      document_.root = std::move(node);
      return;
    }
    Open& parent = stack_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    if (parent.key_is_next) {
      parent.dropped = !take_key(parent, node);
    } else if (!parent.dropped) {
      parent.node.items.push_back(std::move(node));
    }
    parent.key_is_next = !parent.key_is_next;
  }

  bool take_key(Open& map, const YamlNode& key) {
    if (key.kind != YamlNode::Kind::kWord) {
      document_.problems.push_back({key.at, "a key must be a word"});
      return false;
    }
    const auto [first, is_new] = map.lines.emplace(key.word, key.at.line);
    if (!is_new) {
      document_.problems.push_back(
          {key.at, fmt::format("{} is there twice; the first is in line {}", quote_typed(key.word),
                               first->second)});
      return false;
    }
    map.node.keys.push_back({key.word, key.at});
    return true;
  }

  YamlDocument& document_;
  std::vector<Open> stack_;
};

}  // namespace

YamlDocument read_yaml(std::string_view text) {
  YamlDocument document;
  if (text.size() > kMaxYamlBytes) {
    document.problems.push_back(
        {{},
         fmt::format("the file has {} bytes, and {} are the most", text.size(), kMaxYamlBytes)});
    return document;
  }
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    document.problems.push_back({{}, fmt::format("byte {} is zero: this is no text", zero)});
    return document;
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(document);
    if (parser.HandleNextDocument(builder)) {
      YamlDocument second;
      TreeBuilder rest(second);
      if (parser.HandleNextDocument(rest)) {
        document.problems.push_back(
            {second.root.at, "a second document begins here; one file is one document"});
      }
    }
  } catch (const TooDeep& deep) {
    document.problems.push_back(deep.problem);
  } catch (const YAML::Exception& broken) {
    document.problems.push_back(
        {place_of(broken.mark), fmt::format("this is not YAML: {}", broken.msg)});
  } catch (const std::exception& other) {
    document.problems.push_back({{}, fmt::format("the file cannot be read: {}", other.what())});
  }
  std::ranges::sort(document.problems);
  return document;
}

}  // namespace divvy::config
