use crate::dice::Dice;

/// Words that mean something to the resolver, and bytes that are written in more than one way.
const SEGMENTS: [&str; 44] = [
    "api",
    "apis",
    "API",
    "v1",
    "v1beta1",
    "watch",
    "Watch",
    "proxy",
    "namespaces",
    "Namespaces",
    "status",
    "finalize",
    "pods",
    "services",
    "nodes",
    "exec",
    "log",
    "attach",
    "portforward",
    "scale",
    "a",
    "kube-system",
    "system%3Anode",
    "",
    "",
    "%2F",
    "%2f",
    "%2Fpods",
    "w%61tch",
    "n%61mespaces",
    "%20",
    "%",
    "%4",
    "%zz",
    ".",
    "..",
    "%2e%2E",
    "%00",
    "%C3%BC",
    "%ff",
    "*",
    "a+b",
    "a;b",
    "~:@!$&'()*,=",
];
const STARTS: [&str; 16] = [
    "/api/v1/",
    "/api/v1/",
    "/api/v1/",
    "/apis/apps/v1/",
    "/apis/apps/v1/",
    "/api/v1/namespaces/n/",
    "/api/v1/watch/",
    "/api/v1/proxy/",
    "/",
    "//api/v1/",
    "/%61pi/v1/",
    "/api//",
    "/apis/",
    "/api/v1/namespaces/",
    "/debug/pprof/",
    "/%2Fapi/v1/",
];
const KEYS: [&str; 18] = [
    "watch",
    "watch",
    "fieldSelector",
    "fieldSelector",
    "fieldSelector",
    "labelSelector",
    "limit",
    "timeoutSeconds",
    "resourceVersion",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "continue",
    "resourceVersionMatch",
    "%77atch",
    "Watch",
    "field%53elector",
    "",
    "shardSelector",
];
const VALUES: [&str; 34] = [
    "",
    "0",
    "1",
    "true",
    "false",
    "False",
    "FALSE",
    "fal%C5%BFe",
    "no",
    "00",
    "+1",
    "%2B1",
    "-1",
    "-0",
    "0x1",
    "1_0",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "1e3",
    "%31",
    "1%20",
    "%201",
    "%zz",
    "%",
    "a;b",
    "%3B",
    "%00",
    "%ff",
    "NotOlderThan",
    "%D9%A1",
    "a=b",
    "false%00",
];
const FIELDS: [&str; 38] = [
    "metadata.name",
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "=",
    "=",
    "==",
    "%3D",
    "%3D%3D",
    "!=",
    "%21%3D",
    "!",
    ",",
    ",",
    "%2C",
    "%5C",
    "\\",
    "%5C%5C",
    "%5C%2C",
    "%5C%3D",
    "a",
    "b",
    "%2F",
    "%25",
    ".",
    "..",
    "+",
    "%20",
    "",
    "%C3%BC",
    "%ff",
    "%E2%82",
    "%F0%9F%98",
    "%00",
    "%C2%A0",
    "A",
    "~",
    "metadata.name%3Da",
];
const LABELS: [&str; 44] = [
    "a",
    "app",
    "x.io/a",
    "X.io/a",
    "-a",
    "a-",
    "a.b_c",
    "=",
    "==",
    "!=",
    "%3D",
    "!",
    ",",
    "%2C",
    "in",
    "notin",
    "IN",
    "+",
    "%20",
    "+in+",
    "+notin+",
    "(",
    ")",
    "(a,b)",
    "()",
    "(,)",
    "<",
    ">",
    "%3C",
    "%3E",
    "5",
    "-5",
    "%2B5",
    "exists",
    "%C3%BC",
    "%ff",
    "%09",
    "%0A",
    "%C2%A0",
    "%00",
    "/",
    "\"",
    "0123456789012345678901234567890123456789012345678901234567890123",
    "_",
];
const METHODS: [&str; 14] =
    ["GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "Weird", "PROXY"];

/// Method and target of a request that is likely to be read in two ways.
pub fn target(dice: &mut Dice) -> (&'static str, String) {
    let mut target = dice.pick(&STARTS).to_owned();
    for place in 0..dice.below(7) {
        if place > 0 {
            target.push('/');
        }
        target.push_str(dice.pick(&SEGMENTS));
    }
    if dice.one_in(6) {
        target.push('/');
    }
    if !dice.one_in(3) {
        target.push('?');
        push_query(dice, &mut target);
    }
    (dice.pick(&METHODS), target)
}

/// A list whose name is narrowed only if everything else of the query decodes: so that what does not decode is seen.
pub fn narrowed_list(dice: &mut Dice) -> (&'static str, String) {
    let mut target = "/api/v1/pods?fieldSelector=metadata.name%3Da&".to_owned();
    match dice.below(6) {
        0 => {
            target.push_str(dice.pick(&[
                "limit=",
                "timeoutSeconds=",
                "watch=",
                "resourceVersion=",
                "sendInitialEvents=",
            ]));
            target.push_str(dice.pick(&VALUES));
        }
        1 => {
            target.truncate("/api/v1/pods?fieldSelector=".len());
            push_words(dice, &mut target, &FIELDS, 9);
        }
        _ => {
            target.push_str("labelSelector=");
            push_words(dice, &mut target, &LABELS, 9);
        }
    }
    ("GET", target)
}

fn push_query(dice: &mut Dice, target: &mut String) {
    for place in 0..dice.below(5) {
        if place > 0 {
            target.push_str(dice.pick(&["&", "&", "&", "&", "&", "&&", ";", "?", "%26"]));
        }
        let key = dice.pick(&KEYS);
        target.push_str(key);
        if dice.one_in(12) {
            continue;
        }
        target.push('=');
        match key {
            "fieldSelector" | "field%53elector" if !dice.one_in(4) => push_words(dice, target, &FIELDS, 9),
            "fieldSelector" => target.push_str("metadata.name%3Da"),
            "labelSelector" => push_words(dice, target, &LABELS, 6),
            _ => target.push_str(dice.pick(&VALUES)),
        }
    }
}

fn push_words(dice: &mut Dice, target: &mut String, words: &[&'static str], most: usize) {
    for _ in 0..=dice.below(most) {
        target.push_str(dice.pick(words));
    }
}
