//! Pages follow what happens, without a reload by hand.

use std::time::{Duration, Instant};

use portcullis_harness::client::H2Client;
use serde_json::json;

use crate::fixture::{ConsoleFixture, NAME, SOON, assert_quiet, wait_for, wait_text};

const SERVERS: &str = "#servers-part tbody tr";

#[test]
#[ignore = "needs a browser: make test-console"]
fn killed_server_turns_red_within_ten_seconds() {
    let mut fixture = ConsoleFixture::start("console-red");
    let browser = fixture.browser(1400, 1000);
    fixture.open(&browser, &format!("/ui/clusters/{NAME}"));
    let healthy = format!("return [...document.querySelectorAll('{SERVERS} .state.good')].length === 3");
    wait_for(&browser, "three servers are green", SOON, &healthy);
    let killed = fixture.stubs.remove(0);
    let address = killed.address().to_string();
    let begin = Instant::now();
    drop(killed);
    let red = format!(
        "const row = [...document.querySelectorAll('{SERVERS}')].find((row) => row.textContent.includes('{address}'));\
         const mark = row && row.querySelector('.state.critical');\
         return mark && [mark.textContent, getComputedStyle(mark).color]"
    );
    let mark = wait_for(&browser, "the server is red", SOON, &red);
    let took = begin.elapsed();
    println!("red after {:.1} s: {mark}", took.as_secs_f64());
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(mark, json!(["Unhealthy", "rgb(176, 28, 28)"]));
    wait_text(&browser, "Live");
    fixture.open(&browser, "/ui/");
    wait_for(
        &browser,
        "the fleet shows it",
        SOON,
        "return document.querySelector('#cluster-table .state.warning, #cluster-table .state.critical')",
    );
    wait_text(&browser, "2/3");
    assert_quiet(&browser);
}

#[test]
#[ignore = "needs a browser: make test-console"]
fn hundred_lists_show_in_the_policys_row_with_their_user() {
    let fixture = ConsoleFixture::start("console-lists");
    let few = json!({"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 50}}]});
    let policies = json!([
        {"rules": [{"verbs": ["delete"], "apiGroups": ["*"], "resources": ["*"]}]},
        {"rules": [portcullis_e2e::allow_all()], "flowControlSchemaName": "few"},
    ]);
    fixture.apply(&fixture.manifest(NAME).policies(policies).set("/spec/flowControl", few));
    fixture.site.plane().wait_in_sync(1, SOON).unwrap();
    let browser = fixture.browser(1400, 1000);
    fixture.open(&browser, &format!("/ui/clusters/{NAME}"));
    let client = H2Client::connect(&fixture.target(NAME, "alice")).unwrap();
    let begin = Instant::now();
    for _ in 0..100 {
        assert_eq!(client.get("/api/v1/namespaces/default/pods", &[("user-agent", "test/1")]).unwrap().status, 200);
    }
    let row = "const row = [...document.querySelectorAll('#policies-part tbody tr')].find((row) => row.querySelector('th').textContent === '1');\
               const bar = row && row.querySelector('.part');\
               return bar && Number(bar.getAttribute('width')) > 0 && row.textContent";
    let row = wait_for(&browser, "the policy's bar", SOON, row);
    println!("bar after {:.1} s: {row}", begin.elapsed().as_secs_f64());
    let user = "const row = [...document.querySelectorAll('#clients-part tbody tr')].find((row) => row.querySelector('th').textContent === 'alice');\
                return row && row.textContent.includes('100') && row.textContent";
    let user = wait_for(&browser, "the user", SOON, user);
    println!("user after {:.1} s: {user}", begin.elapsed().as_secs_f64());
    wait_text(&browser, "few");
    assert_quiet(&browser);
}

#[test]
#[ignore = "needs a browser: make test-console"]
fn focus_and_filter_survive_updates() {
    let fixture = ConsoleFixture::start("console-focus");
    let browser = fixture.browser(1200, 800);
    fixture.open(&browser, "/ui/");
    let filter = browser.find("#q").unwrap();
    browser.type_into(&filter, "nothing-like-it").unwrap();
    wait_text(&browser, "No cluster matches");
    assert!(browser.url().unwrap().contains("?q=nothing-like-it"));
    fixture.open(&browser, "/ui/?q=prod");
    browser.run("document.querySelector('#cluster-table a').focus(); window.kept = document.body", &[]).unwrap();
    fixture.apply(&fixture.manifest("prod-2.example.com"));
    wait_text(&browser, "prod-2.example.com");
    let focused =
        browser.run("return [document.activeElement.textContent, window.kept === document.body]", &[]).unwrap();
    assert_eq!(focused, json!([NAME, true]), "the same document, with the focus where it was");
    assert_quiet(&browser);
}

#[test]
#[ignore = "needs a browser: make test-console"]
fn pages_are_whole_without_javascript() {
    let fixture = ConsoleFixture::start("console-plain");
    let browser = fixture.browser(1200, 800);
    browser.allow_scripts(false).unwrap();
    fixture.open(&browser, "/ui/");
    let shown = browser.text().unwrap();
    for part in ["Fleet", NAME, "3/3", "gateway-0", "In sync", "only with JavaScript"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    browser.click(&browser.find("#cluster-table a").unwrap()).unwrap();
    wait_text(&browser, "Healthy");
    browser.click(&browser.find("a[href^='/ui/explain?']").unwrap()).unwrap();
    let text = browser.find("#text").unwrap();
    browser.type_into(&text, "GET /api/v1/pods").unwrap();
    browser.type_into(&browser.find("#user").unwrap(), "alice").unwrap();
    browser.click(&browser.find("button.primary").unwrap()).unwrap();
    wait_text(&browser, "Forwarded");
    assert!(browser.text().unwrap().contains("policy 0, rule 0"));
}
