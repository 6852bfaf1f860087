//! Tests of the page in a real browser.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../common/mod.rs"]
mod common;
mod driver;

use cofferdam_web::Page;
use common::{EVIL, Repeats, flooded, promised, serve, serve_with_past, socket_of};
use driver::Browser;
use serde_json::{Value, json};
use std::path::PathBuf;

const AXE: &str = include_str!("../vendor/axe.min.js");
/// Limit on the rows of the table in the document, for any number of containers.
const MOST_ROWS: u64 = 60;

fn open(page: &Page) -> Browser {
    let browser = Browser::start();
    browser.size(1280, 900);
    // Discard the requests of the browser's own first page.
    browser.requested();
    browser.open(page.url().unwrap());
    browser.wait("document.body.dataset.state === 'live'");
    // Wait for a second frame: nothing must depend on the first alone.
    browser.wait("document.querySelectorAll('.lines .num').length > 3");
    browser
}

fn picture(browser: &Browser, name: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).unwrap();
    browser.picture(&folder.join(format!("{name}.png")));
}

/// Checks that the console is empty and that only this page was requested.
fn is_clean(browser: &Browser, page: &Page) {
    let console = browser.console();
    assert!(console.is_empty(), "{console:#?}");
    let own = format!("http://{}/", socket_of(page));
    for url in browser.requested() {
        assert!(
            url.starts_with(&own) || url.starts_with("data:"),
            "{url} is another origin"
        );
    }
}

/// Serious and critical findings of axe-core.
fn faults(browser: &Browser) -> Vec<String> {
    let world = browser.cdp("Page.getFrameTree", json!({}));
    let frame = world["frameTree"]["frame"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let world = browser.cdp(
        "Page.createIsolatedWorld",
        json!({"frameId": frame, "worldName": "axe"}),
    );
    let context = world["executionContextId"].clone();
    let evaluate = |expression: &str| {
        let parameters = json!({
            "expression": expression,
            "contextId": context,
            "awaitPromise": true,
            "returnByValue": true,
        });
        browser.cdp("Runtime.evaluate", parameters)
    };
    evaluate(AXE);
    let found =
        evaluate("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)");
    let all = found["result"]["value"]
        .as_array()
        .unwrap_or_else(|| panic!("{found}"));
    let bad = all
        .iter()
        .filter(|v| v["impact"] == "serious" || v["impact"] == "critical");
    bad.map(|v| format!("{} {}: {}", v["impact"], v["id"], v["nodes"]))
        .collect()
}

/// Promise 14.
/// Promise 74.
#[test]
fn the_page_names_offender_and_victim_and_opens_a_container() {
    let page = serve_with_past(Repeats::new(flooded(20)));
    let browser = open(&page);
    assert!(
        !browser.text("location.href").contains("token"),
        "the URL keeps no token"
    );
    let sentence = browser.text("document.querySelector('#sentence').textContent");
    assert!(
        sentence.starts_with("ingest takes 0.")
            && sentence.ends_with("from orders-db for its packets."),
        "{sentence}"
    );
    let command = browser.text("document.querySelector('#command').textContent");
    assert_eq!(
        command,
        "sudo cofferdam rule set ingest --network-cpu enforce"
    );
    assert!(
        browser
            .text("document.querySelector('#since').textContent")
            .contains("12 min")
    );
    let names = "[...document.querySelectorAll('.containers tbody th a')]\
                 .map(a => a.textContent).join('|')";
    assert!(
        browser.text(names).starts_with("ingest|"),
        "largest owed first"
    );

    // Sort by a heading, in both directions.
    browser.click(".containers thead th:nth-child(3) button");
    assert!(
        browser.text(names).starts_with("orders-db|batch|"),
        "{}",
        browser.text(names)
    );
    assert_eq!(
        browser.text("document.querySelector('.containers thead th:nth-child(3)').ariaSort"),
        "descending"
    );
    browser.click(".containers thead th:first-child button");
    assert!(
        browser.text(names).contains("batch|checkout|"),
        "{}",
        browser.text(names)
    );

    // Set and clear a filter.
    browser.keys("/");
    browser.keys("tenant-a");
    browser.wait("document.querySelector('#count').textContent === '1 of 27'");
    assert_eq!(browser.text(names), "ingest");
    browser.keys("\u{e00c}");
    browser.wait("document.querySelector('#count').textContent === '27'");

    // HTML in a name is text on the page.
    let found = browser.run(&format!(
        "return [...document.querySelectorAll('a')].some(a => a.textContent === {})",
        json!(EVIL)
    ));
    assert_eq!(found, json!(true));
    assert_eq!(
        browser.run("return document.querySelectorAll('main img, main b').length"),
        json!(0)
    );
    let control = "/[\\u0000-\\u0008\\u001b\\u202e]/.test(document.body.textContent)";
    assert_eq!(browser.run(&format!("return {control}")), json!(false));

    // Open a story by a click, check it, and go back.
    browser.run(
        "[...document.querySelectorAll('.containers a')]\
         .find(a => a.textContent === 'orders-db').click()",
    );
    browser
        .wait("document.querySelector('#story .tiles')?.textContent.includes('Pays for others')");
    let story = browser.text("document.querySelector('#story').innerText");
    for part in [
        "orders-db",
        "ingest",
        "Who it pays for",
        "Promised and lost",
        "batch",
        "tenant-b/orders-db-0",
        "/tenants/2",
    ] {
        assert!(story.contains(part), "{part} is not in\n{story}");
    }
    assert_eq!(browser.text("document.activeElement.id"), "story-name");
    assert_eq!(faults(&browser), Vec::<String>::new());
    picture(&browser, "story-1280-light");
    browser.keys("\u{e00c}");
    browser.wait(
        "!document.querySelector('#overview').hidden && document.querySelector('#story').hidden",
    );
    browser.run("history.back()");
    browser.wait("document.querySelector('#overview').hidden");
    browser.run("location.hash = '#/container/424242'");
    browser.wait("document.querySelector('#story').textContent.includes('no such container')");
    browser.console(); // The browser itself reports the 404.
    browser.run("location.hash = ''");
    browser.wait("!document.querySelector('#overview').hidden");
    is_clean(&browser, &page);
}

/// Promise 14.
#[test]
fn every_width_and_scheme_fits_and_is_accessible() {
    let page = serve_with_past(Repeats::new(promised(flooded(40))));
    let browser = open(&page);
    browser.wait("document.querySelectorAll('#cores tbody tr').length === 2");
    for scheme in ["light", "dark"] {
        browser.cdp(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        browser.wait(&format!(
            "document.documentElement.dataset.theme === '{scheme}'"
        ));
        for width in [400, 768, 1280, 1920] {
            browser.size(width, 900);
            browser.wait(&format!("innerWidth === {width}"));
            browser.wait(
                "document.querySelector('.u-wrap') && document.querySelector('#time').textContent",
            );
            let over = browser.run("return document.documentElement.scrollWidth > innerWidth");
            let wide = "[...document.querySelectorAll('body *')]\
                 .filter(e => e.getBoundingClientRect().right > innerWidth + 1 \
                     && !e.closest('.scroll, .visually-hidden, .canvas'))\
                 .map(e => e.tagName + '#' + e.id + '.' + e.className).join(' ')";
            assert_eq!(
                over,
                json!(false),
                "{width}: the page scrolls sideways: {}",
                browser.text(wide)
            );
            if width == 1280 {
                picture(&browser, &format!("top-{scheme}"));
            }
            if width == 400 || width == 1280 {
                let found = faults(&browser);
                assert!(found.is_empty(), "{scheme} {width}: {found:#?}");
                let height = browser.run("return document.documentElement.scrollHeight");
                browser.size(width, u32::try_from(height.as_u64().unwrap()).unwrap());
                std::thread::sleep(std::time::Duration::from_millis(400));
                picture(&browser, &format!("{width}-{scheme}"));
            }
        }
    }
    is_clean(&browser, &page);
}

/// Promise 14.
#[test]
fn the_keyboard_reaches_every_control_of_500_containers() {
    let page = serve(Repeats::new(flooded(493)));
    let browser = open(&page);
    browser.wait("document.querySelector('#count').textContent === '500'");
    let rows = browser.run("return document.querySelectorAll('.containers tbody tr').length");
    assert!(rows.as_u64().unwrap() <= MOST_ROWS, "{rows} rows");
    assert_eq!(
        browser.text("document.querySelector('.containers').getAttribute('aria-rowcount')"),
        "501"
    );
    // Every control gets the focus by Tab alone, in one cycle.
    let all = browser.run(
        "return [...document.querySelectorAll('a[href], button:enabled, input, summary')]\
         .filter(e => e.tabIndex >= 0 && e.checkVisibility()).length",
    );
    browser.run(
        "window.reached = new Set(); \
         document.addEventListener('focusin', e => reached.add(e.target)); \
         document.activeElement.blur()",
    );
    for _ in 0..all.as_u64().unwrap() + 10 {
        browser.keys("\u{e004}");
    }
    let missed = browser.run(
        "return [...document.querySelectorAll('a[href], button:enabled, input, summary')]\
         .filter(e => e.tabIndex >= 0 && e.checkVisibility() && !reached.has(e) \
             && !e.closest('.flow, tbody'))\
         .map(e => e.outerHTML)",
    );
    assert_eq!(missed, json!([]));
    // Move to the end of the table and back by keys, and open a container by Enter.
    browser.keys("t");
    browser.keys("\u{e010}");
    browser.wait("document.activeElement.closest('tr')?.ariaRowIndex === '501'");
    browser.keys("\u{e013}");
    browser.wait("document.activeElement.closest('tr')?.ariaRowIndex === '500'");
    let name = browser.text("document.activeElement.textContent");
    let rows = browser.run("return document.querySelectorAll('.containers tbody tr').length");
    assert!(
        rows.as_u64().unwrap() <= MOST_ROWS,
        "{rows} rows at the end"
    );
    browser.keys("\u{e007}");
    browser.wait("document.querySelector('#story-name')?.textContent.length > 1");
    assert_eq!(
        browser.text("document.querySelector('#story-name').textContent"),
        name
    );
    browser.keys("\u{e00c}");
    browser.wait(&format!(
        "document.activeElement.textContent === {}",
        Value::from(name)
    ));
    browser.keys("?");
    browser.wait("document.querySelector('#help').open");
    assert_eq!(faults(&browser), Vec::<String>::new());
    browser.keys("\u{e00c}");
    browser.wait("!document.querySelector('#help').open");
    is_clean(&browser, &page);
}

/// Scrolls from end to end in 240 frames: the table must be complete in each one. The test prints
/// the duration of the frames, which depends on the machine.
/// Promise 14.
#[test]
fn a_scroll_through_500_containers_is_whole_in_every_frame() {
    let page = serve(Repeats::new(flooded(493)));
    let browser = open(&page);
    browser.wait("document.querySelector('#count').textContent === '500'");
    browser.run(
        "const area = document.querySelector('.scroll.rows'); area.scrollIntoView();
         window.frames_ms = []; window.gaps = []; let last;
         const end = area.scrollHeight - area.clientHeight, step = end / 240;
         const frame = now => {
           const rows = [...area.querySelectorAll('tbody tr[aria-rowindex]')]
             .map(r => r.getBoundingClientRect());
           const box = area.getBoundingClientRect();
           const head = area.querySelector('thead th').getBoundingClientRect();
           const top = Math.min(...rows.map(r => r.top));
           const bottom = Math.max(...rows.map(r => r.bottom));
           if (top > head.bottom + 1 || bottom < box.top + area.clientHeight - 1)
             gaps.push([area.scrollTop, top - head.bottom, bottom - box.bottom]);
           if (last !== undefined) frames_ms.push(now - last);
           last = now;
           if (area.scrollTop >= end - 1) { window.scrolled = true; return; }
           area.scrollTop += step;
           requestAnimationFrame(frame);
         };
         requestAnimationFrame(frame);",
    );
    browser.wait("window.scrolled === true");
    assert_eq!(browser.run("return window.gaps"), json!([]));
    let frames = browser.run("return window.frames_ms.sort((a, b) => a - b)");
    let frames: Vec<f64> = serde_json::from_value(frames).unwrap();
    let late = frames.iter().filter(|ms| **ms > 25.0).count();
    let (median, longest) = (frames[frames.len() / 2], frames[frames.len() - 1]);
    println!(
        "{} frames: median {median:.1} ms, longest {longest:.1} ms, {late} later than 25 ms",
        frames.len()
    );
    is_clean(&browser, &page);
}

/// Promise 14.
#[test]
fn promises_losses_and_dataplane_cores_are_shown() {
    let feed = Repeats::new(flooded(3));
    let reading = feed.reading.clone();
    let page = serve(feed);
    let browser = open(&page);
    let shown = |id: &str| browser.text(&format!("document.querySelector('#{id}').innerText"));
    browser.wait("document.querySelectorAll('#promises tbody tr').length === 2");
    assert!(
        shown("promises").contains("weight"),
        "{}",
        shown("promises")
    );
    assert_eq!(
        browser.run("return document.querySelector('#dataplanes').checkVisibility()"),
        json!(false)
    );
    *reading.lock().unwrap() = promised(flooded(3));
    browser.wait("document.querySelectorAll('#cores tbody tr').length === 2");
    let first = browser.text("document.querySelector('#promises tbody tr').innerText");
    let first: Vec<&str> = first.split_whitespace().collect();
    assert_eq!(
        first.join(" "),
        "batch reserved 1.25 1.00 0.88 0.02 0 0 orders-db CPU 1; 0.25 of CPU 0; lent now: 1"
    );
    let cores = shown("cores");
    for part in [
        "eth0 core 0 (CPU 1)",
        "73%",
        "812,345",
        "41 µs",
        "no dataplane answers on <img",
    ] {
        assert!(cores.contains(part), "no {part} in {cores}");
    }
    browser.click("#promises tbody tr:first-child a");
    browser.wait("document.querySelector('#story-name')?.textContent === 'batch'");
    is_clean(&browser, &page);
}

/// Promise 14.
#[test]
fn the_past_is_a_key_away_from_now() {
    let page = serve_with_past(Repeats::new(flooded(3)));
    let browser = open(&page);
    browser.wait("document.querySelector('#time').dateTime");
    browser.run("location.hash = '#/?at=' + Date.parse(document.querySelector('#time').dateTime)");
    browser.wait(
        "document.body.dataset.state === 'past' \
         && document.querySelector('#banner').textContent.includes('not now')",
    );
    let then = browser.text("document.querySelector('#time').dateTime");
    assert!(
        browser
            .text("document.querySelector('#sentence').textContent")
            .starts_with("ingest takes")
    );
    assert_eq!(faults(&browser), Vec::<String>::new());
    browser.keys("l");
    browser.wait("document.body.dataset.state === 'live'");
    browser.wait(&format!(
        "document.querySelector('#time').dateTime !== '{then}'"
    ));
    browser.wait("!document.querySelector(\"[data-range='1h']\").disabled");
    browser.click("[data-range='1h']");
    browser.wait("document.querySelector('#charts-span').textContent === 'last hour'");
    is_clean(&browser, &page);
}

/// Promise 14.
#[test]
fn every_state_of_host_and_agent_is_shown() {
    let feed = Repeats::new(common::flooded(0));
    let (reading, fails) = (feed.reading.clone(), feed.fails.clone());
    let page = serve(feed);
    let browser = open(&page);
    assert!(
        browser
            .text("document.querySelector('#observing').textContent")
            .contains("only observes")
    );
    reading.lock().unwrap().ledger.containers.clear();
    reading.lock().unwrap().status = common::status();
    browser.wait(
        "document.querySelector('#sentence').textContent.includes('no container on this host')",
    );
    browser
        .wait("document.querySelector('.containers tbody').textContent.includes('no container')");
    assert_eq!(faults(&browser), Vec::<String>::new());
    reading.lock().unwrap().ledger =
        common::ledger(vec![common::container(1, "web", [200, 20, 19])]);
    browser.wait(
        "document.querySelector('#sentence').textContent\
         .startsWith('Nothing is wrong: none of 1 container')",
    );
    picture(&browser, "calm-1280");
    fails.store(true, std::sync::atomic::Ordering::Relaxed);
    browser.wait("document.body.dataset.state === 'stale'");
    assert!(
        browser
            .text("document.querySelector('#banner').textContent")
            .contains("no agent is running")
    );
    fails.store(false, std::sync::atomic::Ordering::Relaxed);
    browser.wait("document.body.dataset.state === 'live'");
    is_clean(&browser, &page);
    drop(page);
    browser.wait("document.body.dataset.state === 'lost'");
    assert!(
        browser
            .text("document.querySelector('#state').textContent")
            .contains("lost since")
    );
    picture(&browser, "lost-1280");
}
