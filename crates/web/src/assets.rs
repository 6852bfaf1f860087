//! Files of the page, which are part of the program.

/// File of the page.
pub struct File {
    /// Path in the URL.
    pub path: &'static str,
    /// Media type.
    pub media_type: &'static str,
    /// Content of the file.
    pub bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

macro_rules! file {
    ($path:literal, $media_type:expr, $file:literal) => {
        File {
            path: $path,
            media_type: $media_type,
            bytes: include_bytes!(concat!("../assets/", $file)),
        }
    };
}

/// All files of the page.
pub static FILES: &[File] = &[
    file!("/", HTML, "index.html"),
    file!("/style.css", CSS, "style.css"),
    file!("/story.css", CSS, "story.css"),
    file!("/app.js", JS, "app.js"),
    file!("/charts.js", JS, "charts.js"),
    file!("/colours.js", JS, "colours.js"),
    file!("/flow.js", JS, "flow.js"),
    file!("/format.js", JS, "format.js"),
    file!("/overview.js", JS, "overview.js"),
    file!("/place.js", JS, "place.js"),
    file!("/promises.js", JS, "promises.js"),
    file!("/source.js", JS, "source.js"),
    file!("/story.js", JS, "story.js"),
    file!("/table.js", JS, "table.js"),
    file!("/theme.js", JS, "theme.js"),
    file!("/time.js", JS, "time.js"),
    file!("/verdict.js", JS, "verdict.js"),
    file!("/icon.svg", "image/svg+xml", "icon.svg"),
    file!("/vendor/uPlot.iife.min.js", JS, "vendor/uPlot.iife.min.js"),
    file!("/vendor/uPlot.min.css", CSS, "vendor/uPlot.min.css"),
];

/// Index of the file at `path`.
pub fn find(path: &str) -> Option<usize> {
    FILES.iter().position(|file| file.path == path)
}

impl File {
    /// Entity tag. Another version of the program has another tag if the bytes differ.
    pub fn tag(&self) -> String {
        format!("\"{:08x}\"", crc32fast::hash(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the page loads these files and no others.
    /// Promise 74.
    #[test]
    fn the_page_names_its_own_files_only() {
        let text = |file: &File| String::from_utf8(file.bytes.to_vec()).unwrap();
        let own = FILES.iter().filter(|f| !f.path.starts_with("/vendor/"));
        let all: String = own.map(text).collect();
        for file in FILES.iter().filter(|f| f.path != "/") {
            let name = file.path.trim_start_matches('/');
            assert!(all.contains(name), "nothing loads {name}");
        }
        for word in all.split(['"', '\'', '`', '(', ')', ' ', '\n']) {
            let foreign = word.starts_with("http:") || word.starts_with("https:");
            let is_name = word.starts_with("http://www.w3.org/");
            assert!(!foreign || is_name, "{word}");
        }
        for never in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(
                !all.contains(never),
                "{never} would make text of a container HTML"
            );
        }
        let html = text(&FILES[0]);
        assert!(!html.contains("<style") && !html.contains(" style="));
        for never in [" onclick", " onload", " onerror", "javascript:"] {
            assert!(!html.contains(never), "{never}");
        }
    }
}
