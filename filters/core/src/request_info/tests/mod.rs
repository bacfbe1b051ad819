mod rules;

use super::*;

/// verb, prefix, group, version, namespace, resource, subresource, name; for a plain path only the verb.
fn summary(method: &str, target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = unescape_path(path.as_bytes()).unwrap();
    let info = match RequestInfo::resolve(method.as_bytes(), &path, query.as_bytes()) {
        Ok(info) => info,
        Err(error) => return error.to_string(),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !info.is_resource {
        return format!("{} plain {}", text(&info.verb), text(info.api_prefix)).trim_end().to_owned();
    }
    let parts: [&[u8]; 6] =
        [info.api_group, info.api_version, info.namespace, info.resource, info.subresource, &info.name];
    format!("{} {}", text(&info.verb), parts.map(text).join("|"))
}

#[test]
fn paths_resolve_as_in_kube_apiserver() {
    let table = [
        ("GET", "/", "get plain"),
        ("HEAD", "/healthz", "head plain"),
        ("Weird", "/healthz", "weird plain"),
        ("GET", "/api/v1", "get plain"),
        ("GET", "/apis/apps/v1", "get plain apis"),
        ("GET", "/version/api/v1/pods", "get plain"),
        ("GET", "/api/v1/pods", "list |v1||pods||"),
        ("HEAD", "/api/v1/pods", "list |v1||pods||"),
        ("GET", "//api/v1/pods//", "list |v1||pods||"),
        ("get", "/api/v1/pods", " |v1||pods||"),
        ("PURGE", "/api/v1/pods/a", " |v1||pods||a"),
        ("POST", "/api/v1/namespaces/n/pods", "create |v1|n|pods||"),
        ("DELETE", "/api/v1/namespaces/n/pods", "deletecollection |v1|n|pods||"),
        ("DELETE", "/api/v1/namespaces/n/pods/a", "delete |v1|n|pods||a"),
        ("PUT", "/apis/apps/v1/namespaces/n/deployments/d/scale", "update apps|v1|n|deployments|scale|d"),
        ("PATCH", "/api/v1/nodes/m/status", "patch |v1||nodes|status|m"),
        ("GET", "/api/v1/namespaces", "list |v1||namespaces||"),
        ("GET", "/api/v1/namespaces/n", "get |v1|n|namespaces||n"),
        ("PUT", "/api/v1/namespaces/n/finalize", "update |v1|n|namespaces|finalize|n"),
        ("GET", "/api/v1/namespaces/n/status", "get |v1|n|namespaces|status|n"),
        ("GET", "/api/v1/namespaces//pods", "list |v1||pods||"),
        ("GET", "/api/v1/namespaces/namespaces/namespaces/n", "get |v1|namespaces|namespaces||n"),
        ("GET", "/api/v1/watch", "unable to determine kind and namespace from url"),
        ("DELETE", "/api/v1/watch/pods", "watch |v1||pods||"),
        ("GET", "/api/v1/watch/namespaces/n/pods/a", "watch |v1|n|pods||a"),
        ("GET", "/api/v1/proxy/namespaces/n/services/s/x/y", "proxy |v1|n|services||s"),
        ("GET", "/api/v1/namespaces/n/services/s/proxy/x/y", "get |v1|n|services|proxy|s"),
        ("GET", "/api/v1/namespaces/kube-system%2Fsecrets", "list |v1|kube-system|secrets||"),
        ("GET", "/api/v1/%73ecrets", "list |v1||secrets||"),
        ("GET", "/API/v1/pods", "get plain"),
    ];
    for (method, target, expected) in table {
        assert_eq!(summary(method, target), expected, "{method} {target}");
    }
}

#[test]
fn query_decides_watch_and_name() {
    let table = [
        ("watch=true", "watch |v1||pods||"),
        ("watch", "watch |v1||pods||"),
        ("watch=", "watch |v1||pods||"),
        ("watch=no", "watch |v1||pods||"),
        ("watch=0", "list |v1||pods||"),
        ("watch=FALSE", "list |v1||pods||"),
        ("watch=false&watch=true", "list |v1||pods||"),
        ("watch=true;x", "list |v1||pods||"),
        ("watch=%zz", "list |v1||pods||"),
        ("%77atch=1", "watch |v1||pods||"),
        ("Watch=1", "list |v1||pods||"),
        ("fieldSelector=metadata.name=a", "list |v1||pods||a"),
        ("fieldSelector=metadata.name%3D%3Da&watch=1", "watch |v1||pods||a"),
        ("fieldSelector=metadata.name!=a", "list |v1||pods||"),
        ("fieldSelector=spec.nodeName=m,metadata.name=a", "list |v1||pods||a"),
        ("fieldSelector=metadata.name=b,metadata.name=a", "list |v1||pods||a"),
        ("fieldSelector=metadata.name=,metadata.name=a", "list |v1||pods||"),
        ("fieldSelector=metadata.name=a%2Fb", "list |v1||pods||"),
        ("fieldSelector=metadata.name=a&limit=5", "list |v1||pods||a"),
        ("fieldSelector=metadata.name=a&limit=", "list |v1||pods||"),
        ("fieldSelector=metadata.name=a&timeoutSeconds=x&watch=1", "watch |v1||pods||"),
        ("fieldSelector=metadata.name=a&labelSelector=app%20in%20(x,y),!z", "list |v1||pods||a"),
        ("fieldSelector=metadata.name=a&labelSelector=app%20in%20()", "list |v1||pods||a"),
        ("fieldSelector=metadata.name=a&labelSelector=app%20in%20(", "list |v1||pods||"),
        ("watch=fal%C5%BFe", "list |v1||pods||"),
        ("watch=fal%C5%BFe&limit=x", "watch |v1||pods||"),
        ("watch=fal%C5%BFe&fieldSelector=x", "watch |v1||pods||"),
        ("fieldSelector=metadata.name%3Da%5C%5Cb", "list |v1||pods||a\\b"),
        ("fieldSelector=metadata.name%3Da%5Cb", "list |v1||pods||"),
        ("fieldSelector=metadata.name%3D%5C%5C%e2%82", "list |v1||pods||\\\u{fffd}\u{fffd}"),
        ("fieldSelector=broken,metadata.name=a", "list |v1||pods||"),
        ("fieldSelector=metadata.name=+a", "list |v1||pods|| a"),
    ];
    for (query, expected) in table {
        assert_eq!(summary("GET", &format!("/api/v1/pods?{query}")), expected, "{query}");
    }
    let with = |ampersands: usize| format!("/api/v1/pods?watch=1{}", "&".repeat(ampersands));
    assert_eq!(summary("GET", &with(9_999)), "watch |v1||pods||");
    assert_eq!(summary("GET", &with(10_000)), "list |v1||pods||", "Go drops such a query");
    assert_eq!(check_query(&b"&".repeat(9_999)), Ok(()));
    assert_eq!(check_query(&b"&".repeat(10_000)), Err(AmbiguousQuery), "but an older Go does not");
    assert_eq!(summary("GET", "/api/v1/namespaces/n/pods/a?watch=1"), "get |v1|n|pods||a");
    assert_eq!(
        summary("DELETE", "/api/v1/namespaces/n/pods?fieldSelector=metadata.name=a"),
        "deletecollection |v1|n|pods||"
    );
}

#[test]
fn label_selectors_parse_as_in_apimachinery() {
    let valid = [
        "",
        "a",
        "!a",
        "a=b",
        "a==b",
        "a!=b",
        "a=",
        "a=,b",
        "a in (b)",
        "a notin (b,c)",
        "a in (,)",
        "a in (b,)",
        "x.io/a=b",
        "a>5",
        " a = b , c ",
        "in=notin",
        "a in (in)",
        "a in ()",
        "a notin ( )",
        "\0,,,",
        "a\0",
        "a \0,,,",
        "a\0,b",
    ];
    let invalid = [
        ",", "a,", "=b", "a b", "a=b=c", "a in b", "a in (b", "a\0b", "a,\0", "a>x", "a>5x", "-a", "a=-b", "a<-5",
        "a/b/c", "/a", "A_B/c", "!a=b", "a=b c", "a=(b)", "!", "a!b",
    ];
    for selector in valid {
        assert!(label_selector::is_valid(selector.as_bytes()), "{selector}");
    }
    for selector in invalid {
        assert!(!label_selector::is_valid(selector.as_bytes()), "{selector}");
    }
}

#[test]
fn ambiguous_resource_paths_are_refused() {
    let check = |target: &str| {
        let path = unescape_path(target.as_bytes()).unwrap().into_owned();
        let info = RequestInfo::resolve(b"GET", &path, b"").unwrap();
        check_shape(&info, target.as_bytes())
    };
    use AmbiguousPath::*;
    let table = [
        ("/api/v1/namespaces/n/pods/a", Ok(())),
        ("/api/v1/namespaces/n/pods/a/", Ok(())),
        ("/api/v1/namespaces/n/roles/system%3Anode", Ok(())),
        ("/api/v1/namespaces/kube-system%2Fsecrets", Err(EncodedSlash)),
        ("/%2Fapi/v1/secrets", Err(EncodedSlash)),
        ("/api/v1/secrets%2f", Err(EncodedSlash)),
        ("/api/v1/namespaces//pods", Err(EmptySegment)),
        ("/api/v1/namespaces/../secrets", Err(DotSegment)),
        ("/api/v1/namespaces/%2e%2E/secrets", Err(DotSegment)),
        ("/api/v1/./secrets", Err(DotSegment)),
        ("/api/v1/a\\b", Err(Backslash)),
        ("/api/v1/a%5cb", Err(Backslash)),
        ("/api/v1/pods%00", Err(Nul)),
        ("/api/v1/namespaces/n/services/s/proxy/a//b/../c%2Fd", Ok(())),
        ("/api/v1/namespaces/n/services/s%2Fproxy/a/..", Err(EncodedSlash)),
        ("/api/v1/namespaces/./services/s/proxy/a", Err(DotSegment)),
        ("/api/v1/proxy/namespaces/n/services/s/..", Ok(())),
        ("/healthz/../x//y", Ok(())),
    ];
    for (target, expected) in table {
        assert_eq!(check(target), expected, "{target}");
    }
}

#[test]
fn long_running_requests_are_those_of_kube_apiserver() {
    let is_long = |target: &str| {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        RequestInfo::resolve(b"GET", path.as_bytes(), query.as_bytes()).unwrap().is_long_running()
    };
    for target in [
        "/api/v1/pods?watch",
        "/api/v1/watch/pods",
        "/api/v1/proxy/nodes/n",
        "/api/v1/namespaces/n/pods/p/exec",
        "/api/v1/namespaces/n/pods/p/attach",
        "/api/v1/namespaces/n/pods/p/portforward",
        "/api/v1/namespaces/n/pods/p/log",
        "/api/v1/nodes/n/proxy/metrics",
        "/debug/pprof/heap",
    ] {
        assert!(is_long(target), "{target}");
    }
    let proxy = RequestInfo::resolve(b"PROXY", b"/healthz", b"").unwrap();
    assert!(proxy.is_long_running(), "a method is the verb of a plain path");
    for target in ["/api/v1/pods", "/api/v1/namespaces/n/pods/p/status", "/debug/pprof", "/logs"] {
        assert!(!is_long(target), "{target}");
    }
}

proptest::proptest! {
    #[test]
    fn segments_are_what_stands_between_slashes(path in "/{0,2}[a/]{0,40}", taken in 0..12_usize) {
        let trimmed = super::trim_slashes(path.as_bytes());
        let all: Vec<&[u8]> =
            if trimmed.is_empty() { vec![] } else { trimmed.split(|byte| *byte == b'/').collect() };
        let mut segments = super::Segments::new(path.as_bytes());
        let taken = taken.min(all.len());
        for segment in &all[..taken] {
            proptest::prop_assert_eq!(segments.take(), *segment);
        }
        proptest::prop_assert_eq!((segments.len(), segments.taken()), (all.len() - taken, taken));
        for (ahead, segment) in all[taken..].iter().enumerate() {
            proptest::prop_assert_eq!(segments.peek(ahead), *segment);
        }
        proptest::prop_assert!(segments.peek(all.len() - taken).is_empty());
    }

    #[test]
    fn client_input_causes_no_panic(method in ".{0,8}", path in "[/a-z%.]{0,64}", query in ".{0,64}") {
        if let Ok(path) = unescape_path(path.as_bytes()) {
            let _ = RequestInfo::resolve(method.as_bytes(), &path, query.as_bytes()).map(|info| check_shape(&info, &path));
        }
    }

    #[test]
    fn kept_path_reads_the_same_for_a_hop_that_cleans_it(path in "(/(api|apis|v1|pods|\\.|\\.\\.|%2e|%2F|a|))+") {
        let decoded = unescape_path(path.as_bytes()).unwrap();
        let info = RequestInfo::resolve(b"GET", &decoded, b"");
        if let Ok(info) = info && info.is_resource && check_shape(&info, path.as_bytes()).is_ok() {
            let inner = decoded.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
            proptest::prop_assert!(inner.into_iter().all(|segment| segment != b"." && segment != b".."));
        }
    }
}
