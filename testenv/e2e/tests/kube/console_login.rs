//! The console's login in a real browser, with tokens of a real kube-apiserver: `make test-console`.

use std::time::Instant;

use portcullis_harness::browser::Browser;
use portcullis_harness::wait;
use serde_json::json;

use crate::console::{OTHER, READERS, Readers, TENANT};
use crate::sources::SOON;

fn wait_text(browser: &Browser, text: &str) {
    wait::until_ok(text, SOON, || {
        let shown = browser.text().map_err(|error| error.to_string())?;
        if shown.contains(text) { Ok(()) } else { Err(shown) }
    })
    .unwrap();
}

fn log_in(browser: &Browser, token: &str) {
    browser.type_into(&browser.find("#token").unwrap(), token).unwrap();
    browser.click(&browser.find("button.primary").unwrap()).unwrap();
}

#[test]
#[ignore = "needs a browser: make test-console"]
fn console_session_of_a_tenant_in_a_browser() {
    let Some(readers) = Readers::start("console-browser", &["--http-review-interval", "2s"]) else { return };
    let browser = Browser::start(&readers.fixture.run, 1200, 800).unwrap();
    let open = |path: &str| browser.open(readers.address(), path).unwrap();
    open(&format!("/ui/clusters/{TENANT}"));
    wait_text(&browser, "Log in");
    log_in(&browser, "wrong");
    wait_text(&browser, "The token is not valid");
    let token = readers.token("tenant");
    log_in(&browser, &token);
    wait_text(&browser, "Conditions");
    let url = browser.url().unwrap();
    assert!(url.ends_with(&format!("/ui/clusters/{TENANT}")), "the page that was asked for: {url}");
    let cookies = browser.cookies().unwrap();
    let [cookie] = cookies.as_slice() else { panic!("{cookies:?}") };
    let of = |name: &str| cookie[name].clone();
    assert_eq!(
        [of("name"), of("httpOnly"), of("secure"), of("sameSite"), of("path")],
        [json!("__Host-portcullis"), json!(true), json!(true), json!("Strict"), json!("/")]
    );
    assert!(!cookie.to_string().contains(&token));
    assert_eq!(browser.run("return document.cookie", &[]).unwrap(), "", "no script reads it");
    open(&format!("/ui/clusters/{OTHER}"));
    wait_text(&browser, "You may not see this");
    let status =
        "const done = arguments[arguments.length - 1]; fetch(arguments[0]).then((answer) => done(answer.status))";
    let path = json!(format!("/ui/api/clusters/{OTHER}"));
    assert_eq!(browser.run_async(status, &[path]).unwrap(), 403);
    open("/ui/");
    wait_text(&browser, TENANT);
    wait_text(&browser, "Live");
    assert!(!browser.text().unwrap().contains(OTHER));
    browser.click(&browser.find(".reader button").unwrap()).unwrap();
    wait_text(&browser, "Log in");
    assert_eq!(browser.cookies().unwrap().len(), 0);
    log_in(&browser, &token);
    wait_text(&browser, "Live");
    // The page that is open shows the login when the token is revoked.
    readers.fixture.admin(&["delete", "serviceaccount", "tenant", "-n", READERS]);
    let begin = Instant::now();
    wait_text(&browser, "Log in");
    println!("revoked: the open page showed the login after {:.1} s", begin.elapsed().as_secs_f64());
    let messages = browser.console_messages().unwrap();
    assert!(messages.iter().all(|message| message.contains("Failed to load resource")), "{messages:?}");
}
