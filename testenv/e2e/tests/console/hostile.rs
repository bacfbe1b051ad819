//! Text that others wrote is shown as text.

use serde_json::{Value, json};

use crate::fixture::{ConsoleFixture, NAME, SOON, assert_quiet, get, wait_for, wait_text};

/// Each sets `window.pwned` if a browser takes it for more than text.
const HOSTILE: [&str; 7] = [
    "<script>window.pwned=1</script>",
    "\"><img src=x onerror=window.pwned=1>",
    "' autofocus onfocus=window.pwned=1 x='",
    "</textarea></title></style></script><svg onload=window.pwned=1>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'>",
    "javascript:window.pwned=1",
    "{{constructor.constructor('window.pwned=1')()}}",
];

fn assert_harmless(browser: &portcullis_harness::browser::Browser, page: &str) {
    let found = browser
        .run("return [window.pwned ?? null, document.scripts.length, document.querySelectorAll('img:not(.brand img), iframe, style, object').length]", &[])
        .unwrap();
    assert_eq!(found, json!([null, 1, 0]), "{page}");
}

#[test]
#[ignore = "needs a browser: make test-console"]
fn hostile_names_render_as_text_in_a_browser() {
    let fixture = ConsoleFixture::start("console-hostile");
    for (number, text) in HOSTILE.iter().enumerate() {
        // A file name may hold everything but a slash; messages repeat names of fields.
        fixture.write(
            &format!("{}.yaml", text.replace('/', "∕")),
            &json!({"kind": text, "apiVersion": "portcullis.dev/v1alpha1"}).to_string(),
        );
        let name = format!("bad-{number}.example.com");
        fixture.write(&format!("bad-{number}.yaml"), &json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": name}, "spec": {*text: 1},
        }).to_string());
        let target = fixture.target(NAME, text);
        assert_eq!(get(&target, NAME, "/api/v1/pods", text), 200, "{text}");
    }
    let browser = fixture.browser(1400, 1000);
    fixture.open(&browser, "/ui/");
    wait_text(&browser, "spec[<script>window.pwned=1</script>]: unknown field");
    wait_text(&browser, "bad-6.example.com");
    assert_harmless(&browser, "fleet");
    fixture.open(&browser, &format!("/ui/clusters/{NAME}"));
    for text in HOSTILE {
        let script = format!(
            "const names = [...document.querySelectorAll('#clients-part tbody th')].map((one) => one.textContent);\
             return names.includes({}) || null",
            Value::from(text)
        );
        wait_for(&browser, text, SOON, &script);
    }
    assert_harmless(&browser, "cluster");
    for text in HOSTILE {
        fixture.open(&browser, "/ui/explain");
        for field in ["#text", "#user", "#groups", "#cluster"] {
            browser
                .run("document.querySelector(arguments[0]).value = arguments[1]", &[json!(field), json!(text)])
                .unwrap();
        }
        browser.run("document.querySelector('#text').value = 'GET /' + arguments[0]", &[json!(text)]).unwrap();
        browser.click(&browser.find("button.primary").unwrap()).unwrap();
        wait_for(&browser, "an answer", SOON, "return document.querySelector('.answer, [role=alert]')");
        assert_harmless(&browser, text);
    }
    assert_quiet(&browser);
}
