//! Pictures of the pages for docs/images, by `make screenshots`.

use std::fs;
use std::time::{Duration, Instant};

use portcullis_harness::browser::{Browser, ColorScheme};
use portcullis_harness::client::H2Client;
use portcullis_harness::{project_root, wait};
use serde_json::json;

use crate::fixture::{ConsoleFixture, NAME, SOON, wait_for, wait_text};

/// The time for which numbers are gathered.
const TRAFFIC: Duration = Duration::from_secs(100);

/// A fleet in which something is wrong, under some load.
fn fleet(test: &str) -> ConsoleFixture {
    let mut fixture = ConsoleFixture::start(test);
    let policies = json!([
        {"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "userGroups": ["system:masters"]}]},
        {"rules": [{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods", "services"]}], "flowControlSchemaName": "reads"},
        {"rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]}], "flowControlSchemaName": "few"},
    ]);
    let limits = json!({"flowControlSchemas": [
        {"name": "reads", "maxRequestsInflight": {"max": 200}},
        {"name": "few", "tokenBucket": {"qps": 2, "burst": 4}},
    ]});
    fixture.apply(&fixture.manifest(NAME).policies(policies).set("/spec/flowControl", limits));
    for name in
        ["dev.example.com", "staging.example.com", "edge-eu.example.com", "edge-us.example.com", "batch.example.com"]
    {
        fixture.apply(&fixture.manifest_of(name, 2));
    }
    fixture.write("qa.yaml", &fixture.manifest("qa.example.com").set("/spec/serverz", json!([])).to_text());
    fixture.site.plane().wait_in_sync(1, SOON).unwrap();
    let clients = [
        (NAME, "ci-robot", "/api/v1/namespaces/default/pods", 9),
        (NAME, "alice", "/api/v1/namespaces/default/services", 4),
        (NAME, "scanner", "/api/v1/namespaces/default/secrets", 5),
        ("dev.example.com", "bob", "/api/v1/namespaces/default/pods", 3),
        ("staging.example.com", "carol", "/api/v1/nodes", 2),
        ("edge-eu.example.com", "dave", "/apis/apps/v1/deployments", 6),
        ("batch.example.com", "jobs", "/apis/batch/v1/jobs", 7),
    ];
    let clients = clients.map(|(name, user, path, each)| {
        let target = fixture.target(name, user);
        let client = wait::until_ok("the cluster's own chain answers", SOON, || H2Client::connect(&target)).unwrap();
        (client, user, path, each)
    });
    let begin = Instant::now();
    let mut turn = 0;
    while begin.elapsed() < TRAFFIC {
        // Ends the test's own server in the middle, so that the numbers have a step.
        if fixture.stubs.len() == 3 && begin.elapsed() > TRAFFIC * 7 / 10 {
            drop(fixture.stubs.remove(2));
        }
        for (client, user, path, each) in &clients {
            for _ in 0..*each + turn % 3 {
                client.get(path, &[("user-agent", &format!("{user}/1.4 (linux/amd64)"))]).unwrap();
            }
        }
        turn += 1;
    }
    fixture
}

fn save(browser: &Browser, name: &str) {
    let folder = project_root().join("docs/images");
    fs::create_dir_all(&folder).unwrap();
    let picture = browser.screenshot().unwrap();
    println!("{name}: {} bytes", picture.len());
    fs::write(folder.join(name), picture).unwrap();
}

#[test]
#[ignore = "writes docs/images: make screenshots"]
fn screenshots_of_the_pages_are_taken() {
    if std::env::var_os("UPDATE_SCREENSHOTS").is_none() {
        return;
    }
    let fixture = fleet("console-pictures");
    let browser = fixture.browser(1280, 1080);
    for (colors, suffix) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        browser.prefer(colors).unwrap();
        fixture.open(&browser, "/ui/");
        wait_text(&browser, "Live");
        wait_text(&browser, "2/3");
        save(&browser, &format!("console-fleet-{suffix}.png"));
        fixture.open(&browser, &format!("/ui/clusters/{NAME}"));
        wait_text(&browser, "Live");
        if colors == ColorScheme::Light {
            // For the eyes of the one who takes the pictures.
            wait_for(&browser, "numbers", SOON, "return document.querySelector('#policies-part .part')");
        }
        wait_for(&browser, "users", SOON, "return document.querySelector('#clients-part tbody th')");
        save(&browser, &format!("console-cluster-{suffix}.png"));
        fixture.open(&browser, "/ui/explain");
        let line = json!({"time": "2026-11-24T08:22:22Z", "cluster": NAME, "method": "GET", "path": "/api/v1/namespaces/default/secrets",
            "verb": "list", "user": "scanner", "groups": ["dev", "system:authenticated"], "userAgent": "scanner/1.4", "code": 429});
        browser.run("document.querySelector('#text').value = arguments[0]", &[json!(line.to_string())]).unwrap();
        browser.click(&browser.find("button.primary").unwrap()).unwrap();
        wait_text(&browser, "Why not another policy");
        browser.run("document.activeElement.blur(); scrollTo(0, 0)", &[]).unwrap();
        save(&browser, &format!("console-explain-{suffix}.png"));
    }
}
