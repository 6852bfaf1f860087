//! Facts of a report's layout: nothing is wider than the page without scrolling, no line crosses a
//! text, every time chart has ticks.

use super::*;

/// Value of an attribute of the tag with which `tag` begins.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let tag = &tag[..tag.find('>').unwrap_or(tag.len())];
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

fn number(tag: &str, name: &str) -> Option<f64> {
    attribute(tag, name)?.parse().ok()
}

/// Every page, with the name of its kind.
fn pages() -> Vec<(&'static str, String)> {
    let all = sample::all().into_iter();
    let mut pages: Vec<_> = all
        .map(|run| (run.manifest.kind.label(), html(&run).unwrap()))
        .collect();
    let mut enforced = sample::penalty();
    if let Some(RunResult::Penalty(result)) = &mut enforced.result {
        for cell in &mut result.cells {
            *cell = sample::enforced(cell.clone(), 1.02);
        }
    }
    pages.push(("enforced", html(&enforced).unwrap()));
    pages
}

/// Tags that are open at each occurrence of `needle`.
fn open_tags<'a>(page: &'a str, needle: &str) -> Vec<Vec<&'a str>> {
    const EMPTY: [&str; 8] = [
        "meta", "br", "rect", "line", "polyline", "circle", "polygon", "path",
    ];
    let mut open: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for (at, _) in page.match_indices('<') {
        let tag = &page[at + 1..page[at..].find('>').map_or(page.len(), |end| at + end)];
        let name = tag.split([' ', '\n', '/']).next().unwrap_or_default();
        if tag.starts_with('/') {
            open.pop();
            continue;
        }
        if page[at..].starts_with(needle) {
            found.push(open.clone());
        }
        if !tag.starts_with('!') && !tag.ends_with('/') && !EMPTY.contains(&name) {
            open.push(tag);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    found
}

/// Promise 45.
#[test]
fn every_table_scrolls_by_itself_and_shows_that_it_does() {
    for (kind, page) in pages() {
        let tables = open_tags(&page, "<table");
        assert!(!tables.is_empty(), "{kind}");
        for open in tables {
            let around = open.last().copied().unwrap_or_default();
            assert_eq!(around, "div class=\"scroll\" tabindex=\"0\"", "{kind}");
        }
    }
    let style = cofferdam_page::STYLE;
    let rule = style.split(".scroll {").nth(1).unwrap();
    let rule = &rule[..rule.find('}').unwrap()];
    assert!(rule.contains("overflow-x: auto"));
    // The shadow stays at the edge while the table scrolls beneath it; a cover moves with the
    // table.
    assert!(rule.contains("scroll") && rule.contains("local") && rule.contains("--shade"));
}

/// Promise 45.
#[test]
fn every_picture_takes_the_width_that_it_is_given() {
    // A rule may be broken over lines.
    let style = cofferdam_page::STYLE.split_whitespace();
    let style = style.collect::<Vec<_>>().join(" ");
    assert!(style.contains("svg { display: block; width: 100%; height: auto; }"));
    // The last of an odd number of pictures has a row of its own, and uses its width.
    let alone = ".charts > figure:nth-child(odd of figure):nth-last-child(1 of figure)";
    for rule in [
        " { grid-column: 1 / -1; }",
        " svg.narrow { display: none; }",
        " svg.wide { display: block; }",
    ] {
        assert!(style.contains(&format!("{alone}{rule}")), "{rule}");
    }
    for (kind, page) in pages() {
        let pictures = open_tags(&page, "<svg");
        for open in &pictures {
            let around = open.last().copied().unwrap_or_default();
            assert_eq!(around, "figure", "{kind}");
            let grid = open[open.len() - 2];
            assert_eq!(grid, "div class=\"charts\"", "{kind}");
        }
        // In both widths: a picture alone in a row must not leave half of it empty.
        let of = |class: &str| page.matches(&format!("<svg class=\"{class}\"")).count();
        assert_eq!(
            (of("narrow"), of("wide")),
            (pictures.len() / 2, pictures.len() / 2)
        );
        for svg in page.split("<svg ").skip(1) {
            assert!(
                attribute(svg, "viewBox").is_some(),
                "{kind}: {}",
                &svg[..80]
            );
        }
    }
}

/// Left, top, right, bottom.
type Area = [f64; 4];

/// Areas of a picture's texts, as wide as they can be.
fn texts(svg: &str) -> Vec<(String, Area)> {
    let all = svg.split("<text ").skip(1).map(|tag| {
        let tag = &format!("<text {tag}");
        let size = number(tag, "font-size").unwrap();
        let (x, y) = (number(tag, "x").unwrap(), number(tag, "y").unwrap());
        let body = tag.split_once('>').unwrap().1;
        let name = body.split('<').next().unwrap().trim().to_owned();
        let width = name.chars().count() as f64 * size * 0.55;
        let left = match attribute(tag, "text-anchor") {
            Some("end") => x - width,
            Some("middle") => x - width / 2.0,
            _ => x,
        };
        (name, [left, y - size / 2.0, left + width, y + size / 2.0])
    });
    all.collect()
}

/// Lines of a picture that are drawn like references.
fn references(svg: &str) -> Vec<Area> {
    let drawn = svg
        .split('<')
        .filter(|tag| attribute(tag, "stroke") == Some("#8A949E"));
    let area = |tag: &str| -> Area {
        let ends = match attribute(tag, "points") {
            Some(points) => points
                .split([' ', ','])
                .filter_map(|n| n.parse().ok())
                .collect(),
            None => ["x1", "y1", "x2", "y2"]
                .map(|name| number(tag, name).unwrap())
                .to_vec(),
        };
        let along = |from: usize| ends.iter().skip(from).step_by(2).copied();
        let least = |from| along(from).fold(f64::INFINITY, f64::min);
        let most = |from| along(from).fold(f64::NEG_INFINITY, f64::max);
        [least(0), least(1), most(0), most(1)]
    };
    drawn.map(area).collect()
}

fn meet(one: Area, other: Area) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

/// No reference line crosses a text, and no name covers another name.
/// Promise 45.
#[test]
fn lines_and_names_never_cover_a_text() {
    let mut seen = 0;
    for (kind, page) in pages() {
        for svg in page.split("<svg ").skip(1) {
            let svg = svg.split("</svg>").next().unwrap();
            let texts = texts(svg);
            for line in references(svg) {
                seen += 1;
                for (name, area) in &texts {
                    assert!(
                        !meet(line, *area),
                        "{kind}: '{name}' at {area:?} on {line:?}"
                    );
                }
            }
            for (i, (name, area)) in texts.iter().enumerate() {
                for (other, place) in &texts[..i] {
                    assert!(!meet(*area, *place), "{kind}: '{name}' over '{other}'");
                }
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

/// Promise 45.
#[test]
fn every_time_chart_has_ticks_on_both_axes() {
    let page = html(&sample::isolation()).unwrap();
    let of_time = page.split("<svg ").skip(1);
    let of_time: Vec<&str> = of_time.filter(|svg| svg.contains("over time in")).collect();
    assert!(of_time.len() >= 4, "{}", of_time.len());
    for svg in of_time {
        let svg = svg.split("</svg>").next().unwrap();
        let is_number = |name: &str| name.parse::<f64>().is_ok();
        let (texts, width) = (texts(svg), number(svg, "width").unwrap());
        let ticks: Vec<&Area> = texts
            .iter()
            .filter(|(n, _)| is_number(n))
            .map(|t| &t.1)
            .collect();
        let left = ticks.iter().filter(|area| area[2] < 52.0).count();
        let below = ticks
            .iter()
            .filter(|area| area[2] >= 52.0 && area[2] <= width)
            .count();
        assert!(left >= 3 && below >= 3, "{left} {below}: {texts:?}");
        for name in ["seconds", "used, % of the capacity", "tenant a"] {
            assert!(svg.contains(name), "{name}");
        }
    }
}

/// Promise 45.
#[test]
fn the_legend_names_every_colour_and_its_shape() {
    let of = |kind: &str| pages().into_iter().find(|(k, _)| *k == kind).unwrap().1;
    for (kind, names) in [
        ("enforced", ["vanilla", "with Cofferdam enforcing"]),
        ("demo", ["caused", "paid: ran in its time slices"]),
        ("isolation", ["without Cofferdam", "with Cofferdam"]),
        ("accounting", ["each pair", "median, 95% interval"]),
    ] {
        let page = of(kind);
        let mut svgs = page.split("<svg ").skip(1);
        let svg = svgs.find(|svg| {
            names
                .iter()
                .all(|name| svg.contains(&format!("\n{name}\n")))
        });
        let svg = svg.unwrap_or_else(|| panic!("{kind}: {names:?}"));
        // Two swatches before the names, one of them a square: its four corners.
        let corners = |tag: &&str| attribute(tag, "points").map(|p| p.split_whitespace().count());
        let shapes: Vec<_> = svg.split("<polygon").skip(1).map(|t| corners(&t)).collect();
        assert!(
            shapes.iter().any(|n| n.is_some_and(|n| n > 8)),
            "{kind}: {shapes:?}"
        );
        assert!(
            shapes.iter().any(|n| n.is_some_and(|n| n <= 5)),
            "{kind}: {shapes:?}"
        );
    }
}
