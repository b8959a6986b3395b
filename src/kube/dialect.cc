#include "kube/dialect.h"

#include <algorithm>

#include "base/text.h"
#include "kube/whole_number.h"

namespace divvy::kube {
namespace {

std::string shown(std::string_view text) { return escape_for_terminal(text.substr(0, 60)); }

// What one container says about its cards; zero is as good as nothing said.
struct Cards {
  PodAmount cards;
  std::optional<PodAmount> memory;
  std::optional<PodAmount> percentage;
  std::optional<PodAmount> cores;

  // The field that makes it less than whole cards.
  [[nodiscard]] const PodAmount* part() const {
    if (cores && cores->amount < 100) return &*cores;
    if (cores) return nullptr;
    if (memory) return &*memory;
    return percentage && percentage->amount < 100 ? &*percentage : nullptr;
  }
};

Result<std::optional<Cards>> cards_of(const PodContainer& container, const CardResources& names) {
  DIVVY_TRY(count, container.amount(names.cards));
  Cards cards;
  const auto said = [&](std::string_view name) -> Result<std::optional<PodAmount>> {
    if (name.empty()) return std::nullopt;
    DIVVY_TRY(amount, container.amount(name));
    if (amount && amount->amount == 0) amount.reset();
    return amount;
  };
  DIVVY_TRY(memory, said(names.memory));
  DIVVY_TRY(percentage, said(names.memory_percentage));
  DIVVY_TRY(cores, said(names.cores));
  if (count && count->amount == 0) {
    const auto& other = memory ? memory : percentage ? percentage : cores;
    if (!other) return std::nullopt;
    return refuse(other->field,
                  fmt::format("a part of 0 cards is asked for; set \"{}\" to 1", names.cards));
  }
  if (!count && !memory && !percentage && !cores) return std::nullopt;
  for (const auto* percent : {&percentage, &cores}) {
    if (*percent && (*percent)->amount > 100) {
      return refuse((*percent)->field, fmt::format("{} % of a card is more than one; write 1 to "
                                                   "100, and more cards in \"{}\"",
                                                   (*percent)->amount, names.cards));
    }
  }
  if (memory && percentage) {
    return refuse(percentage->field,
                  fmt::format("the memory is in \"{}\" too; leave one of them out", names.memory));
  }
  cards.cards = count ? *count : PodAmount{1, container.field + ".resources.limits"};
  cards.memory = memory;
  cards.percentage = percentage;
  cards.cores = cores;
  return cards;
}

Result<Asked> part_of_a_card(const Cards& cards, const CardResources& names, Reading& reading) {
  Asked asked;
  if (cards.cores) {
    DIVVY_TRY(share, share_of_percent(*cards.cores));
    asked.share = share;
  }
  if (cards.memory) {
    DIVVY_TRY(memory, amount_of(*cards.memory, mib(1)));
    asked.memory = memory;
  } else if (cards.percentage && cards.cores) {
    if (cards.percentage->amount != cards.cores->amount) {
      return refuse(cards.percentage->field,
                    fmt::format("{} % of the memory with {} % of the cores depends on the GPU; "
                                "write the memory in MiB, as \"{}\"",
                                cards.percentage->amount, cards.cores->amount, names.memory));
    }
  } else if (cards.percentage) {
    DIVVY_TRY(share, share_of_percent(*cards.percentage));
    asked.share = share;
  } else if (cards.cores && cards.cores->amount < 100) {
    reading.warnings.push_back(
        fmt::format("{}: {} % of the cores come with {} % of the memory; write \"{}\" for more",
                    cards.cores->field, cards.cores->amount, cards.cores->amount, names.memory));
  }
  return asked;
}

}  // namespace

Status read_cards(const PodContainer& container, const CardResources& names, Reading& reading) {
  DIVVY_TRY(cards, cards_of(container, names));
  if (!cards) return {};
  Asked asked;
  const PodAmount* part = cards->part();
  if (cards->cards.amount == 1 && part != nullptr) {
    DIVVY_TRY(of_a_card, part_of_a_card(*cards, names, reading));
    asked = of_a_card;
  } else if (part == nullptr) {
    DIVVY_TRY(share, whole_gpus(cards->cards));
    asked.share = share;
    if (cards->memory) {
      DIVVY_TRY(memory, amount_of(*cards->memory, mib(1)));
      asked.memory = memory;
    } else if (cards->percentage && cards->percentage->amount != 100) {
      return refuse(cards->percentage->field,
                    fmt::format("{} % of the memory of a whole card depends on the GPU; write it "
                                "in MiB, as \"{}\"",
                                cards->percentage->amount, names.memory));
    }
  } else {
    return refuse(part->field, fmt::format("a part of each of {} cards cannot be had in one "
                                           "container; ask for 1 card, or for whole ones without "
                                           "this",
                                           cards->cards.amount));
  }
  const std::string field = part != nullptr ? part->field : cards->cards.field;
  reading.asks.push_back({&container, asked, field});
  return {};
}

Result<std::uint64_t> whole_number(const PodText& text, std::uint64_t most) {
  const auto number = parse_whole_number<std::uint64_t>(trim(text.text));
  if (!number || *number > most) {
    return refuse(text.field,
                  fmt::format("\"{}\" is no whole number from 0 to {}", shown(text.text), most));
  }
  return *number;
}

Result<bool> true_or_false(const PodText& text) {
  const std::string word = to_lower(trim(text.text));
  if (word == "true") return true;
  if (word == "false") return false;
  return refuse(text.field, fmt::format("\"{}\" has to be true or false", shown(text.text)));
}

Result<std::vector<std::string>> comma_list(const PodText& text) {
  std::vector<std::string> pieces;
  for (const std::string_view piece : split(text.text, ',')) {
    if (trim(piece).empty()) {
      return refuse(text.field, fmt::format("\"{}\" has an empty piece; write names with commas "
                                            "between them",
                                            shown(text.text)));
    }
    pieces.emplace_back(trim(piece));
  }
  return pieces;
}

Result<Bytes> amount_of(const PodAmount& count, Bytes unit) {
  const auto bytes = checked_mul(unit, count.amount);
  if (!bytes) {
    return refuse(count.field,
                  fmt::format("{} times {} is more than any GPU has", count.amount, unit));
  }
  return *bytes;
}

Result<Share> share_of_percent(const PodAmount& percent) {
  if (percent.amount == 0 || percent.amount > 100) {
    return refuse(percent.field,
                  fmt::format("{} % of a GPU cannot be had; write 1 to 100", percent.amount));
  }
  return Share(static_cast<std::uint32_t>(percent.amount) * 10);
}

Result<Share> whole_gpus(const PodAmount& count) {
  if (count.amount > Share::max().whole_part()) {
    return refuse(count.field, fmt::format("{} GPUs are more than any node has", count.amount));
  }
  return Share::whole_gpus(static_cast<std::uint32_t>(count.amount));
}

Result<std::optional<model::GpuMode>> vgpu_mode(const PodText& text) {
  const std::string mode = to_lower(trim(text.text));
  if (mode.empty() || mode == "hami-core") return std::nullopt;
  if (mode == "mps") return model::GpuMode::kMps;
  return refuse(text.field,
                fmt::format("mode \"{}\" is not to be had; write hami-core or mps, or leave it out",
                            shown(text.text)));
}

Result<std::vector<const PodContainer*>> named_containers(const PodView& pod,
                                                          std::string_view annotation) {
  std::vector<const PodContainer*> named;
  const auto text = pod.annotation(annotation);
  if (!text) {
    if (pod.containers().empty()) return refuse("spec.containers", "the pod has no container");
    return std::vector{&pod.containers().front()};
  }
  DIVVY_TRY(names, comma_list(*text));
  for (const std::string& name : names) {
    const PodContainer* container = pod.container(name);
    if (container == nullptr) {
      std::vector<std::string> all;
      for (const PodContainer& one : pod.containers()) all.push_back(one.name);
      return refuse(text->field,
                    fmt::format("the pod has no container \"{}\"; it has {}", shown(name),
                                shown(fmt::format("{}", fmt::join(all, ", ")))));
    }
    if (std::ranges::find(named, container) != named.end()) {
      return refuse(text->field, fmt::format("\"{}\" is named twice", shown(name)));
    }
    named.push_back(container);
  }
  return named;
}

}  // namespace divvy::kube
