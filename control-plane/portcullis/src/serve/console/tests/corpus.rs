use portcullis_api::status::Served;
use serde_json::{Value, json};

use super::views::{cluster, data, object, status};
use super::*;

/// Names, messages, user agents and reasons as an attacker would choose them.
const HOSTILE: [&str; 13] = [
    "<script>window.pwned=1</script>\"'&\u{1b}[31m\u{202e}",
    "\"><img src=x onerror=window.pwned=1>",
    "' autofocus onfocus=window.pwned=1 x='",
    "</textarea></title></style></script><svg onload=window.pwned=1>",
    "javascript:window.pwned=1",
    "{{constructor.constructor('window.pwned=1')()}}",
    "${window.pwned=1}",
    "<!--<script>-->",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "\u{2028}\u{2029}\u{0}\r\nSet-Cookie: a=b",
    "<\u{200b}script>window.pwned=1</script>",
    "%3Cscript%3Ewindow.pwned=1%3C/script%3E",
    "..//..//status?x=#<a href=javascript:window.pwned=1>",
];

/// Markup of a page without its texts, as a sequence of tags with the names of their attributes: a text changes nothing of it.
fn skeleton(page: &str) -> String {
    let mut tags = String::new();
    for part in page.split('<').skip(1) {
        let tag = part.split('>').next().unwrap_or_default();
        let mut is_value = false;
        tags.push('<');
        for one in tag.chars() {
            match one {
                '"' => is_value = !is_value,
                _ if is_value => {}
                one => tags.push(one),
            }
        }
        assert!(!is_value, "a quote is open in <{tag}>");
    }
    tags
}

fn is_shown_as_text(page: &str, plain: &str, text: &str) {
    assert_eq!(skeleton(page), skeleton(plain), "{text}");
    let controls = |one: char| (one.is_control() && one != '\n') || matches!(one, '\u{202e}' | '\u{2028}' | '\u{2029}');
    assert!(!page.contains(controls), "{text}: {page}");
    assert_eq!(page.matches("<script").count(), 1, "{page}");
}

#[tokio::test]
async fn hostile_text_becomes_no_markup_on_any_page() {
    let pages = async |text: &str| {
        let mut all = data(&["a.test"], text);
        all.clusters.insert(text.to_owned(), cluster(text, text));
        all.status = Arc::new(status(
            vec![
                object("File", text, Served::Nothing, text),
                object("UpstreamCluster", "a.test", Served::Nothing, text),
            ],
            text,
        ));
        let site = Site::new(all, LoginPolicy::Open);
        let mut pages = Vec::new();
        for path in [
            "/ui/".to_owned(),
            "/ui/clusters/a.test".to_owned(),
            format!("/ui/clusters/{}", crate::serve::console::html::encode(text)),
        ] {
            pages.push(site.get(NEAR, &path, &[]).await.text);
        }
        pages
    };
    let plain = pages("words").await;
    for text in HOSTILE {
        for (page, plain) in pages(text).await.iter().zip(&plain) {
            is_shown_as_text(page, plain, text);
        }
    }
}

#[tokio::test]
async fn hostile_questions_and_filters_become_no_markup() {
    let site = Site::new(data(&["a.test"], "words"), LoginPolicy::Open);
    let encode = crate::serve::console::html::encode;
    let fields = |text: &str| {
        let text = encode(text);
        format!("text={text}&user={text}&groups={text}&cluster={text}")
    };
    let plain = [
        site.get(NEAR, "/ui/?q=wordless", &[]).await.text,
        site.get(NEAR, "/ui/explain?cluster=words", &[]).await.text,
        site.post(NEAR, "/ui/explain", &[], &fields("words")).await.text,
    ];
    for text in HOSTILE {
        let pages = [
            site.get(NEAR, &format!("/ui/?q={}", encode(text)), &[]).await.text,
            site.get(NEAR, &format!("/ui/explain?cluster={}", encode(text)), &[]).await.text,
            site.post(NEAR, "/ui/explain", &[], &fields(text)).await.text,
        ];
        for (page, plain) in pages.iter().zip(&plain) {
            is_shown_as_text(page, plain, text);
        }
    }
}

#[tokio::test]
async fn hostile_requests_are_explained_as_text() {
    let mut all = data(&["a.test"], "words");
    let document = json!({
        "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a.test"},
        "spec": {
            "servers": [{"endpoint": "https://192.0.2.1:6443"}],
            "dispatchPolicies": [
                {"rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"], "users": ["root"]}]},
                {"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]},
            ],
        },
    });
    all.objects = Arc::new(ObjectSet { clusters: vec![Arc::new(document)], ..ObjectSet::default() });
    let site = Site::new(all, LoginPolicy::Open);
    let encode = crate::serve::console::html::encode;
    let ask = async |user: &str| {
        let body = format!("text={}&user={}&groups={}", encode("GET /api/v1/pods\nX-A: b"), encode(user), encode(user));
        site.post(NEAR, "/ui/explain", &[], &body).await
    };
    let plain = ask("alice").await;
    assert!(
        plain.status == StatusCode::OK && plain.text.contains("Forwarded") && plain.text.contains("policy 1"),
        "{plain:?}"
    );
    for text in HOSTILE {
        let answer = ask(text).await;
        assert_eq!(answer.text.matches("<script").count(), 1, "{}", answer.text);
        assert!(!answer.text.contains("<img src=x") && !answer.text.contains("<svg onload"), "{}", answer.text);
    }
    let json = r#"{"text":"GET /api/v1/secrets","user":"alice"}"#;
    let headers = [("content-type", "application/json")];
    let answer = site.send(NEAR, "POST", "/ui/api/explain", &headers, json).await.json();
    assert_eq!((&answer["cluster"], &answer["dispatch"]["policy"]), (&json!("a.test"), &json!(1)), "{answer}");
}

#[tokio::test]
async fn answer_of_the_shadow_stands_beside_the_real_one() {
    let ask = async |shadow: Value, message: &str| {
        let mut all = data(&["a.test"], "words");
        let document = json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": "a.test"},
            "spec": {
                "servers": [{"endpoint": "https://192.0.2.1:6443"}],
                "dispatchPolicies": [{"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}],
                "portcullis": {"shadow": shadow},
            },
        });
        all.objects = Arc::new(ObjectSet { clusters: vec![Arc::new(document)], ..ObjectSet::default() });
        let site = Site::new(all, LoginPolicy::Open);
        let body = format!("text={}&user=alice", crate::serve::console::html::encode("GET /api/v1/pods"));
        let page = site.post(NEAR, "/ui/explain", &[], &body).await.text;
        assert!(page.contains("Forwarded") && page.contains(message), "{page}");
        page
    };
    let denial = |message: &str| {
        let rule = json!({"verbs": ["list"], "apiGroups": ["*"], "resources": ["*"]});
        json!({"dispatchPolicies": [{"rules": [rule], "portcullis": {"action": "Deny", "message": message}}]})
    };
    let plain = ask(denial("not yet"), "not yet").await;
    for expected in ["would refuse it: 403 Forbidden", "If the shadow decided", "policy 0, rule 0"] {
        assert!(plain.contains(expected), "{expected}: {plain}");
    }
    let hostile = ask(denial("<script>x</script>"), "&lt;script&gt;x").await;
    is_shown_as_text(&hostile, &plain, "<script>x</script>");
    let lists = json!({"dispatchPolicies": [{"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}]});
    assert!(ask(lists, "would forward it").await.contains("If the shadow decided"));
    assert!(!ask(Value::Null, "Forwarded").await.contains("shadow"));
}
