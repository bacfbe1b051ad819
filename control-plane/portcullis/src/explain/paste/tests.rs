use super::*;

fn request(method: &str, target: &str, host: Option<&str>) -> PastedRequest {
    PastedRequest {
        method: method.to_owned(),
        target: target.to_owned(),
        host: host.map(str::to_owned),
        ..PastedRequest::default()
    }
}

fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn request_lines_are_read_with_their_headers() {
    assert_eq!(read("GET /api/v1/pods"), Ok(request("GET", "/api/v1/pods", None)));
    let whole = "DELETE /api/v1/namespaces/a/pods/b?x=1 HTTP/1.1\r\nHost: prod.test:6443\r\nImpersonate-User: bob\r\nAuthorization: Bearer secret\r\n\r\n";
    let expected = PastedRequest {
        headers: headers(&[("Impersonate-User", "bob")]),
        has_token: true,
        ..request("DELETE", "/api/v1/namespaces/a/pods/b?x=1", Some("prod.test"))
    };
    assert_eq!(read(whole), Ok(expected));
    assert_eq!(read(" GET https://[2001:db8::1]:6443?x "), Ok(request("GET", "/?x", Some("2001:db8::1"))));
    assert_eq!(read("GET https://user@prod.test"), Ok(request("GET", "/", Some("prod.test"))));
}

#[test]
fn kubectl_lines_of_new_and_old_versions_are_read() {
    let new = "I1124 08:22:22.03 20856 envvar.go:195] \"Feature gate default state\" feature=\"X\" enabled=true
I1124 08:22:22.035901   20856 round_trippers.go:527] \"Request\" verb=\"GET\" url=\"https://prod.test:6443/api/v1/namespaces/default/pods?limit=500\" headers=<
\tAccept: application/json, */*
\tAuthorization: Bearer <masked>
\tImpersonate-User: bob
 >
I1124 08:22:22.037377   20856 round_trippers.go:632] \"Response\" verb=\"GET\" url=\"https://prod.test:6443/x\" status=\"\"
";
    let old = "I0705 12:00:00.000000   12345 round_trippers.go:463] GET https://prod.test:6443/api/v1/namespaces/default/pods?limit=500
I0705 12:00:00.000000   12345 round_trippers.go:469] Request Headers:
I0705 12:00:00.000000   12345 round_trippers.go:473]     Accept: application/json, */*
I0705 12:00:00.000000   12345 round_trippers.go:473]     Authorization: Bearer <masked>
I0705 12:00:00.000000   12345 round_trippers.go:473]     Impersonate-User: bob
I0705 12:00:00.000000   12345 round_trippers.go:574] Response Status: 403 Forbidden in 2 milliseconds
";
    let expected = PastedRequest {
        headers: headers(&[("Accept", "application/json, */*"), ("Impersonate-User", "bob")]),
        has_token: true,
        ..request("GET", "/api/v1/namespaces/default/pods?limit=500", Some("prod.test"))
    };
    assert_eq!(read(new), Ok(expected.clone()));
    assert_eq!(read(old), Ok(expected));
}

#[test]
fn curl_commands_are_read_as_a_shell_reads_them() {
    let of_kubectl = "I1124 08:22 20872 round_trippers.go:527] \"Request\" curlCommand=<
\tcurl -v -XPATCH  -H \"User-Agent: kubectl\" -H \"Authorization: Bearer <masked>\" 'https://127.0.0.1:1/api/v1/pods?x=a b'
 >";
    let expected = PastedRequest {
        headers: headers(&[("User-Agent", "kubectl")]),
        has_token: true,
        ..request("PATCH", "/api/v1/pods?x=a b", Some("127.0.0.1"))
    };
    assert_eq!(read(of_kubectl), Ok(expected));
    let by_hand =
        "curl -k --cert a.pem --key b.pem -d '{\"a\":1}' \\\n  -H 'Host: prod.test' prod.lab:6443/api/v1/pods | jq .";
    assert_eq!(read(by_hand), Ok(request("POST", "/api/v1/pods", Some("prod.test"))));
    assert_eq!(read("curl -sI https://a.test/healthz").map(|request| request.method), Ok("GET".to_owned()));
    assert_eq!(read("curl -I https://a.test/healthz").map(|request| request.method), Ok("HEAD".to_owned()));
    assert_eq!(read("curl -u a:b"), Err(PasteError::Curl));
}

#[test]
fn log_line_names_cluster_and_user() {
    let line = r#"{"time":"2026-11-24T08:00:00Z","code":403,"cluster":"prod.test","method":"GET","path":"/api/v1/pods","verb":"watch","user":"alice","groups":["dev","system:authenticated"],"impersonatedUser":"bob","userAgent":"kubectl"}"#;
    let read = read(&format!("{line}\n{{\"other\":1}}\n")).unwrap();
    assert_eq!((read.method.as_str(), read.target.as_str()), ("GET", "/api/v1/pods?watch=true"));
    assert_eq!((read.cluster.as_deref(), read.user.as_deref()), (Some("prod.test"), Some("alice")));
    assert_eq!(read.groups, ["dev", "system:authenticated"]);
    assert_eq!(read.headers, headers(&[("Impersonate-User", "bob"), ("User-Agent", "kubectl")]));
    let pretty = "{\n \"method\": \"GET\",\n \"path\": \"/version\"\n}";
    assert_eq!(super::read(pretty).unwrap().target, "/version");
    for bad in ["{", "{}", r#"{"method":"GET","path":"x"}"#, r#"{"method":1,"path":"/"}"#] {
        assert_eq!(super::read(bad), Err(PasteError::LogLine), "{bad}");
    }
}

#[test]
fn text_without_a_request_is_refused() {
    assert_eq!(read(" \n"), Err(PasteError::Empty));
    assert_eq!(read(&"x".repeat(MAX_TEXT + 1)), Err(PasteError::TooLong));
    for text in ["hello", "get /api", "GET", "GET api/v1/pods", "\u{202e}", "] "] {
        assert_eq!(read(text), Err(PasteError::NoRequest), "{text}");
    }
    let several = read("GET /a\nGET /b\nX: y\n").unwrap();
    assert_eq!((several.target.as_str(), several.headers.len(), several.notes.len()), ("/a", 0, 1));
    let many = format!("GET /a\n{}", "A: b\n".repeat(1_000));
    assert_eq!(read(&many).unwrap().headers.len(), MAX_HEADERS);
}
