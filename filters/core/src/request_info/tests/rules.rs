//! The rules of request info by number, as docs/testing.md lists them; each has a row of its own.

use super::*;

#[test]
fn every_rule_has_a_case() {
    let table = [
        (1, "GET", "/api/v1/%70ods/a", "get |v1||pods||a"),
        (1, "GET", "/api/v1/%2570ods", "list |v1||%70ods||"),
        (1, "GET", "/api/v1/../pods", "get |v1||..||pods"),
        (1, "GET", "///api/v1/pods///", "list |v1||pods||"),
        (1, "GET", "/api//v1/pods", "get |||v1||pods"),
        (2, "GET", "/api/v1", "get plain"),
        (2, "GET", "/apis/apps/v1", "get plain apis"),
        (2, "GET", "/apis/apps/v1/deployments", "list apps|v1||deployments||"),
        (2, "GET", "/Api/v1/pods", "get plain"),
        (3, "PUT", "/api/v1/watch/pods", "watch |v1||pods||"),
        (3, "GET", "/api/v1/proxy", "unable to determine kind and namespace from url"),
        (3, "Get", "/api/v1/pods/a", " |v1||pods||a"),
        (4, "GET", "/api/v1/namespaces/n/finalize", "get |v1|n|namespaces|finalize|n"),
        (4, "GET", "/api/v1/namespaces/n/pods/a/namespaces/m", "get |v1|n|pods|namespaces|a"),
        (4, "GET", "/api/v1/Namespaces/n/pods", "get |v1||Namespaces|pods|n"),
        (5, "GET", "/api/v1/nodes/m/proxy/x", "get |v1||nodes|proxy|m"),
        (5, "GET", "/api/v1/proxy/nodes/m/x", "proxy |v1||nodes||m"),
        (6, "GET", "/api/v1/pods?fieldSelector=metadata.name%3Da", "list |v1||pods||a"),
        (6, "GET", "/api/v1/pods?fieldSelector=metadata.name%3D..", "list |v1||pods||"),
        (6, "DELETE", "/api/v1/pods?fieldSelector=metadata.name%3Da", "deletecollection |v1||pods||"),
        (7, "GET", "/api/v1/pods?watch=&watch=0", "watch |v1||pods||"),
        (7, "GET", "/api/v1/pods?watch=faLse&watch=1", "list |v1||pods||"),
        (8, "GET", "/api/v1/pods?watch=1&limit=&fieldSelector=metadata.name%3Da", "watch |v1||pods||"),
        (9, "GET", "/api/v1/pods?watch=1;&fieldSelector=metadata.name%3Da+b", "list |v1||pods||a b"),
        (9, "GET", "/api/v1/pods?Watch=1&wat%63h=%31", "watch |v1||pods||"),
        (10, "GET", "/api/v1/pods?fieldSelector=x=y,,metadata.name%3D%3Da%5C%2Cb", "list |v1||pods||a,b"),
        (10, "GET", "/api/v1/pods?fieldSelector=metadata.name=a=b", "list |v1||pods||"),
        (12, "HEAD", "/healthz", "head plain"),
        (12, "HEAD", "/api/v1/pods/a", "get |v1||pods||a"),
    ];
    for (rule, method, target, expected) in table {
        assert_eq!(summary(method, target), expected, "rule {rule}: {method} {target}");
    }
    let elsewhere = [11, 13];
    for rule in 1..=13 {
        assert!(elsewhere.contains(&rule) || table.iter().any(|(number, ..)| *number == rule), "rule {rule}");
    }
}

/// Rule 11.
#[test]
fn selectors_are_told_as_they_are_written() {
    let told = |method: &str, target: &str| {
        let (path, query) = target.split_once('?').unwrap();
        let info = RequestInfo::resolve(method.as_bytes(), path.as_bytes(), query.as_bytes()).unwrap();
        let selectors = info.selectors(query.as_bytes());
        let text = |value: Option<Cow<'_, [u8]>>| value.map(|value| String::from_utf8_lossy(&value).into_owned());
        (text(selectors.field).unwrap_or_default(), text(selectors.label).unwrap_or_default())
    };
    let pair = |field: &str, label: &str| (field.to_owned(), label.to_owned());
    let query = "fieldSelector=a%3D1&labelSelector=!&fieldSelector=b";
    assert_eq!(told("GET", &format!("/api/v1/pods?{query}")), pair("a=1", "!"), "also what does not parse");
    assert_eq!(told("GET", &format!("/api/v1/pods?watch=1&{query}")), pair("a=1", "!"));
    assert_eq!(told("DELETE", &format!("/api/v1/pods?{query}")), pair("a=1", "!"));
    assert_eq!(told("GET", &format!("/api/v1/pods/a?{query}")), pair("", ""));
    assert_eq!(told("GET", &format!("/api/v1/watch/pods?{query}")), pair("", ""));
    assert_eq!(told("GET", &format!("/healthz?{query}")), pair("", ""));
}
