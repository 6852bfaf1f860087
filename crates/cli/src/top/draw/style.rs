//! Colours: three of the sixteen that every colour terminal has, or none. A sign, a glyph or a word
//! repeats whatever a colour says.

use ratatui::style::{Color, Style};

/// Colours in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    coloured: bool,
}

impl Palette {
    /// Palette for the values of NO_COLOR and TERM (<https://no-color.org>: set and not empty).
    pub fn of(no_color: Option<&str>, term: Option<&str>) -> Palette {
        let wanted = no_color.is_none_or(str::is_empty);
        let able = !matches!(term, None | Some("" | "dumb")) && !term.is_some_and(is_monochrome);
        Palette {
            coloured: wanted && able,
        }
    }

    /// Palette for the environment of this process.
    pub fn of_environment() -> Palette {
        let value = |name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
        Palette::of(value("NO_COLOR").as_deref(), value("TERM").as_deref())
    }

    /// Style of a container that owes: others paid for it.
    pub fn owes(self) -> Style {
        self.colour(Color::Red)
    }

    /// Style of a container that paid for others.
    pub fn paid(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// Style of a warning.
    pub fn warning(self) -> Style {
        self.colour(Color::Yellow)
    }

    fn colour(self, colour: Color) -> Style {
        match self.coloured {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }
}

fn is_monochrome(term: &str) -> bool {
    term.starts_with("vt1")
        || term.starts_with("vt2")
        || term.ends_with("-m")
        || term.ends_with("-mono")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 13.
    #[test]
    fn colours_obey_no_color_and_the_terminal() {
        let coloured = |no_color, term| Palette::of(no_color, term).owes() != Style::new();
        assert!(coloured(None, Some("xterm")) && coloured(Some(""), Some("linux")));
        assert!(!coloured(Some("1"), Some("xterm-256color")));
        for term in [
            None,
            Some(""),
            Some("dumb"),
            Some("vt100"),
            Some("xterm-mono"),
        ] {
            assert!(!coloured(None, term), "{term:?}");
        }
        // Only the sixteen colours that every colour terminal has.
        let palette = Palette::of(None, Some("xterm-16color"));
        for style in [palette.owes(), palette.paid(), palette.warning()] {
            assert!(matches!(
                style.fg,
                Some(Color::Red | Color::Cyan | Color::Yellow)
            ));
        }
    }
}
