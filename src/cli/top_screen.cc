#include "cli/top_screen.h"

#include <clocale>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/stats.h"
#include "cli/table.h"
#include "cli/top_view.h"

// Last, because it defines macros with everyday names.
#define NCURSES_WIDECHAR 1
#include <ncurses.h>

namespace divvy::cli {
namespace {

constexpr int kPeriodMs = 1000;
constexpr int kEscape = 27;

const char* const kHelp[] = {
    "s   sort by: used, memory, waiting, name, id",
    "/   only tenants whose name, user or command has ...",
    "    (Enter keeps it, Escape removes it)",
    "p   pause: the picture stands still",
    "q   quit",
    "",
    "The bars show what tenants use of the GPU's time and",
    "memory; each has its letter and colour. The line",
    "behind them is the last minute.",
    "",
    "any key goes on",
};

int attribute_of(Color color) {
  switch (color) {
    case Color::kPlain:
      return A_NORMAL;
    case Color::kBold:
      return static_cast<int>(A_BOLD);
    case Color::kDim:
      return static_cast<int>(A_DIM);
    case Color::kGreen:
      return static_cast<int>(COLOR_PAIR(1));
    case Color::kYellow:
      return static_cast<int>(COLOR_PAIR(2));
    case Color::kRed:
      return static_cast<int>(COLOR_PAIR(3));
    case Color::kCyan:
      return static_cast<int>(COLOR_PAIR(4));
  }
  return A_NORMAL;
}

// The terminal in screen mode as long as it lives.
class Screen {
 public:
  static Result<Screen> open(bool color) {
    std::setlocale(LC_ALL, "");
    SCREEN* screen = ::newterm(nullptr, stdout, stdin);
    if (screen == nullptr) {
      const char* name = std::getenv("TERM");
      return err(ErrorCode::kUnsupported,
                 "the terminal \"{}\" is not known here; set TERM=xterm, or use --once",
                 name != nullptr ? name : "");
    }
    ::set_term(screen);
    ::cbreak();
    ::noecho();
    ::curs_set(0);
    ::keypad(stdscr, TRUE);
    ::set_escdelay(50);
    if (color && ::has_colors()) {
      ::start_color();
      ::use_default_colors();
      ::init_pair(1, COLOR_GREEN, -1);
      ::init_pair(2, COLOR_YELLOW, -1);
      ::init_pair(3, COLOR_RED, -1);
      ::init_pair(4, COLOR_CYAN, -1);
    }
    return Screen(screen);
  }
  ~Screen() {
    if (screen_ == nullptr) return;
    ::endwin();
    ::delscreen(screen_);
  }
  Screen(Screen&& other) noexcept : screen_(std::exchange(other.screen_, nullptr)) {}
  Screen& operator=(Screen&&) = delete;

  void draw(const std::vector<Line>& lines, const std::string& footer) const {
    ::erase();
    const int rows = getmaxy(stdscr);
    for (int row = 0; row < rows - 1 && row < static_cast<int>(lines.size()); ++row) {
      ::move(row, 0);
      for (const Piece& piece : lines[static_cast<std::size_t>(row)]) {
        const int attribute = attribute_of(piece.color);
        attron(attribute);
        ::addstr(piece.text.c_str());
        attroff(attribute);
      }
    }
    attron(A_REVERSE);
    mvaddstr(rows - 1, 0, footer.c_str());
    attroff(A_REVERSE);
    ::refresh();
  }

 private:
  explicit Screen(SCREEN* screen) : screen_(screen) {}
  SCREEN* screen_;
};

class TopLoop {
 public:
  TopLoop(const Daemon& daemon, Style style, const Screen& screen)
      : daemon_(daemon), style_(style), screen_(screen) {}

  Status run() {
    look();
    for (;;) {
      draw();
      ::timeout(kPeriodMs);
      const int key = ::getch();
      if (key == ERR) {
        if (!view_.paused) look();
        continue;
      }
      if (typing_) {
        type(key);
        continue;
      }
      if (help_) {
        help_ = false;
        if (key != 'q') continue;
      }
      switch (key) {
        case 'q':
          return {};
        case 's':
          view_.sort = next(view_.sort);
          break;
        case 'p':
          view_.paused = !view_.paused;
          break;
        case '/':
          typing_ = true;
          view_.filter.clear();
          break;
        case '?':
        case 'h':
          help_ = true;
          break;
        default:
          break;
      }
    }
  }

 private:
  void look() {
    const auto reply = daemon_.ask("GET", "/v1/stats");
    if (!reply) {
      // It may be restarted; the picture of before stays.
      problem_ = reply.error().message;
      return;
    }
    auto stats = parse_stats(reply->body);
    if (!stats) {
      problem_ = stats.error().message;
      return;
    }
    problem_.clear();
    const auto waiting = daemon_.ask("GET", kWaitingJobsPath);
    if (waiting && waiting->ok()) add_waiting_jobs(*stats, waiting->body);
    stats_ = *std::move(stats);
    history_.add(stats_);
  }

  void draw() {
    view_.rows = static_cast<std::size_t>(std::max(2, getmaxy(stdscr) - 1));
    style_.columns = static_cast<std::size_t>(std::max(20, getmaxx(stdscr)));
    std::vector<Line> lines;
    if (help_) {
      for (const char* text : kHelp) lines.push_back({{text, Color::kPlain}});
    } else {
      lines = top_lines(stats_, history_, view_, style_);
    }
    std::string footer = " s sort   / filter   p pause   ? help   q quit ";
    if (typing_) footer = " filter: " + view_.filter + "_ ";
    if (!problem_.empty()) footer = " " + problem_.substr(0, problem_.find('\n')) + " ";
    screen_.draw(lines, shorten(footer, *style_.columns, style_));
  }

  void type(int key) {
    if (key == '\n' || key == KEY_ENTER) {
      typing_ = false;
    } else if (key == kEscape) {
      typing_ = false;
      view_.filter.clear();
    } else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
      if (!view_.filter.empty()) view_.filter.pop_back();
    } else if (key >= ' ' && key < 127 && view_.filter.size() < 60) {
      view_.filter += static_cast<char>(key);
    }
  }

  const Daemon& daemon_;
  Style style_;
  const Screen& screen_;
  Stats stats_;
  History history_;
  View view_;
  std::string problem_;
  bool typing_ = false;
  bool help_ = false;
};

// The first line is the head of the table. What does not fit is left out.
std::vector<Line> lines_of(const std::string& table, const Style& style) {
  std::vector<Line> lines;
  for (const std::string_view line : split(std::string_view(table), '\n')) {
    const Color color = lines.empty() ? Color::kBold : Color::kPlain;
    lines.push_back({{shorten(std::string(line), *style.columns, style), color}});
  }
  return lines;
}

}  // namespace

Status run_table_screen(const DrawTable& draw, const Style& style) {
  DIVVY_TRY(screen, Screen::open(style.color));
  Style now = style;
  std::string table;
  bool paused = false;
  for (;;) {
    std::string footer = " p pause   q quit ";
    if (!paused) {
      // The daemon may be restarted; the picture of before stays.
      auto drawn = draw();
      if (drawn) {
        table = *std::move(drawn);
      } else {
        footer = " " + drawn.error().message.substr(0, drawn.error().message.find('\n')) + " ";
      }
    }
    now.columns = static_cast<std::size_t>(std::max(20, getmaxx(stdscr)));
    screen.draw(lines_of(table, now),
                shorten(paused ? " PAUSED  " + footer : footer, *now.columns, now));
    ::timeout(kPeriodMs);
    const int key = ::getch();
    if (key == 'q') return {};
    if (key == 'p') paused = !paused;
  }
}

Status run_top_screen(const Daemon& daemon, const Style& style) {
  DIVVY_TRY(screen, Screen::open(style.color));
  return TopLoop(daemon, style, screen).run();
}

}  // namespace divvy::cli
