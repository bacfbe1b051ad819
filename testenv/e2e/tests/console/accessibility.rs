//! Pages in the judgement of axe-core, light and dark, and by the keyboard alone.

use portcullis_harness::browser::{Browser, ColorScheme};
use portcullis_harness::{deps, wait};
use serde_json::{Value, json};

use crate::fixture::{ConsoleFixture, NAME, SOON, assert_quiet, get, wait_text};

/// The Tab key (WebDriver, section 17.4.2).
const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

/// Violations of axe's rules, with what they are about. `serious` and `critical` ones keep people out.
fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    // Run by the driver, and not by the page, whose policy forbids it.
    browser.run(axe, &[]).unwrap();
    let script = "const done = arguments[arguments.length - 1];\
                  axe.run(document, {resultTypes: ['violations']}).then((result) => done(result.violations.map((one) =>\
                  [one.impact, one.id, one.nodes.map((node) => node.html).slice(0, 3).join(' ')].join(': '))), (error) => done(['critical: ' + error]))";
    let found: Value = browser.run_async(script, &[]).unwrap();
    found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "needs a browser: make test-console"]
fn pages_pass_axe_in_light_and_dark() {
    let mut fixture = ConsoleFixture::start("console-axe");
    let axe = std::fs::read_to_string(deps::axe().unwrap()).unwrap();
    fixture.write(
        "bad.yaml",
        &json!({"apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster",
        "metadata": {"name": "bad.example.com"}, "spec": {"servers": []}})
        .to_string(),
    );
    assert_eq!(get(&fixture.target(NAME, "alice"), NAME, "/api/v1/pods", "axe"), 200);
    drop(fixture.stubs.remove(0));
    let browser = fixture.browser(1400, 1000);
    fixture.open(&browser, &format!("/ui/clusters/{NAME}"));
    wait_text(&browser, "Unhealthy");
    wait_text(&browser, "alice");
    let mut pages = 0;
    for colors in [ColorScheme::Light, ColorScheme::Dark] {
        browser.prefer(colors).unwrap();
        for path in ["/ui/", &format!("/ui/clusters/{NAME}"), "/ui/explain", "/ui/clusters/none"] {
            fixture.open(&browser, path);
            check(&browser, &axe, &format!("{path} {colors:?}"));
            pages += 1;
        }
        fixture.open(&browser, "/ui/explain");
        browser.type_into(&browser.find("#text").unwrap(), "DELETE /api/v1/namespaces/default/pods/web").unwrap();
        browser.type_into(&browser.find("#cluster").unwrap(), NAME).unwrap();
        browser.click(&browser.find("button.primary").unwrap()).unwrap();
        wait_text(&browser, "Identity");
        check(&browser, &axe, &format!("an answer, {colors:?}"));
        pages += 1;
    }
    println!("{pages} pages without a violation");
}

fn check(browser: &Browser, axe: &str, page: &str) {
    assert_eq!(violations(browser, axe), [""; 0], "{page}");
    assert_quiet(browser);
}

#[test]
#[ignore = "needs a browser: make test-console"]
fn keyboard_alone_reaches_everything() {
    let fixture = ConsoleFixture::start("console-keys");
    let browser = fixture.browser(1400, 1000);
    fixture.open(&browser, "/ui/");
    let focused = || {
        browser.run("const one = document.activeElement; return one.getAttribute('href') || one.id || one.getAttribute('aria-label') || one.textContent", &[]).unwrap()
    };
    let mut seen = Vec::new();
    loop {
        browser.press(TAB).unwrap();
        // Behind the last one the focus is nowhere.
        if browser.run("return document.activeElement === document.body", &[]).unwrap() == true {
            break;
        }
        seen.push(focused().as_str().unwrap_or_default().to_owned());
        let outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle", &[]).unwrap();
        assert!(outline == "solid" && seen.len() < 50, "the focus is visible: {outline} at {seen:?}");
    }
    for part in ["#main", "/ui/explain", "q", &format!("/ui/clusters/{NAME}"), "Gateways"] {
        assert!(seen.iter().any(|one| one == part), "{part}: {seen:?}");
    }
    assert_eq!(seen[0], "#main", "first the way past the head of the page");
    fixture.open(&browser, "/ui/");
    browser.press(TAB).unwrap();
    browser.press(ENTER).unwrap();
    wait::until("the content has the focus", SOON, || (focused() == "main").then_some(())).unwrap();
}
