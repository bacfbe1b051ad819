use portcullis_core::identity::{Extra, UserInfo};

use crate::dice::Dice;

/// Names, lower-case as Envoy hands them out, and values.
pub type Headers = Vec<(Vec<u8>, Vec<u8>)>;

const SCHEMES: [&[u8]; 10] = [
    b"Bearer",
    b"bearer",
    b"BEARER",
    b"Bearerx",
    b"Basic",
    b"",
    b"Bear\xc5\xbfer",
    b"\xc2\xa0Bearer",
    b"Bearer\t",
    b"Bearer,",
];
const BETWEEN: [&[u8]; 6] = [b" ", b" ", b" ", b"  ", b"\t", b"\xc2\xa0"];
const TOKENS: [&[u8]; 10] =
    [b"x", b"x.y.z", b"", b"x y", b"x\ty", b"\xc3\xbc", b"\xff", b"x,y", b"x ", b"\xe3\x80\x80x"];
const ENTRIES: [&[u8]; 20] = [
    b"base64url.bearer.authorization.k8s.io.dG9rZW4",
    b"base64url.bearer.authorization.k8s.io.eA",
    b"base64url.bearer.authorization.k8s.io.eR",
    b"base64url.bearer.authorization.k8s.io.",
    b"base64url.bearer.authorization.k8s.io.eA==",
    b"base64url.bearer.authorization.k8s.io._w",
    b"base64url.bearer.authorization.k8s.io.w7w",
    b"base64url.bearer.authorization.k8s.io.+/",
    b"base64url.bearer.authorization.k8s.io.!",
    b"base64url.bearer.authorization.k8s.io.a",
    b"base64url.bearer.authorization.k8s.io.e A",
    b"base64url.bearer.authorization.k8s.io",
    b"Base64url.bearer.authorization.k8s.io.eA",
    b"v5.channel.k8s.io",
    b"v4.channel.k8s.io",
    b"",
    b"",
    b"\xc2\xa0",
    b"\xff",
    b"SPDY/3.1+portforward.k8s.io",
];
const PADDING: [&[u8]; 6] = [b"", b"", b" ", b"\t", b"  ", b"\xc2\xa0"];
const UPGRADES: [&[u8]; 8] = [
    b"websocket",
    b"websocket",
    b"WebSocket",
    b"SPDY/3.1",
    b"web\xc5\xbfocket",
    b"websoc\xe2\x84\xaaet",
    b"",
    b"websockets",
];
const CONNECTIONS: [&[u8]; 7] =
    [b"Upgrade", b"upgrade", b"keep-alive, Upgrade", b"keep-alive,upgrade", b"keep-alive", b"close", b""];

/// Headers that may present a bearer token.
pub fn credentials(dice: &mut Dice) -> Headers {
    let mut headers = Headers::new();
    if !dice.one_in(3) {
        let value = [dice.pick(&SCHEMES), dice.pick(&BETWEEN), dice.pick(&TOKENS)].concat();
        headers.push((b"authorization".to_vec(), value));
    }
    for _ in 0..dice.below(3) {
        headers.push((b"upgrade".to_vec(), dice.pick(&UPGRADES).to_vec()));
    }
    for _ in 0..dice.below(3) {
        headers.push((b"connection".to_vec(), dice.pick(&CONNECTIONS).to_vec()));
    }
    for _ in 0..dice.below(3) {
        let entries: Vec<Vec<u8>> = (0..=dice.below(3))
            .map(|_| [dice.pick(&PADDING), dice.pick(&ENTRIES), dice.pick(&PADDING)].concat())
            .collect();
        headers.push((b"sec-websocket-protocol".to_vec(), entries.join(&b","[..])));
    }
    headers
}

const NAMES: [&[u8]; 16] = [
    b"bob",
    b"bob",
    b"",
    b"system:anonymous",
    b"system:serviceaccount:ns:sa",
    b"system:serviceaccount:NS:sa",
    b"system:serviceaccount:ns:sa.a",
    b"system:serviceaccount:ns.x:sa",
    b"system:serviceaccount:ns:",
    b"system:serviceaccount::sa",
    b"system:serviceaccount:a:b:c",
    b"system:node:n",
    b"Z\xc3\xbc",
    b"a,b",
    b"system:admin",
    b"\xff",
];
const GROUPS: [&[u8]; 10] = [
    b"g",
    b"h",
    b"a,b",
    b"",
    b"system:masters",
    b"system:authenticated",
    b"system:unauthenticated",
    b"system:serviceaccounts",
    b"\xc3\xbc",
    b"\xff",
];
const KEYS: [&str; 18] = [
    "scopes",
    "scopes",
    "a%2fb",
    "a%2Fb",
    "%41",
    "a%",
    "a%zz",
    "a%4",
    "%",
    "",
    "%ff",
    "%00",
    "example.com%2Fteam",
    "a_b",
    "a.b",
    "%C3%BC",
    "!#$&'*+-.^_`|~",
    "%25",
];
const OTHERS: [&str; 4] = ["impersonate-extra", "impersonate-groups", "impersonate-", "impersonate-unheard-of"];

/// Headers that ask to act as another user.
pub fn impersonation(dice: &mut Dice) -> Headers {
    let mut headers = Headers::new();
    let mut push = |name: &str, value: &[u8]| headers.push((name.as_bytes().to_vec(), value.to_vec()));
    if !dice.one_in(8) {
        push("impersonate-user", dice.pick(&NAMES));
    }
    if dice.one_in(8) {
        push("impersonate-user", dice.pick(&NAMES));
    }
    for _ in 0..dice.below(3) {
        push("impersonate-group", dice.pick(&GROUPS));
    }
    for _ in 0..dice.below(4) {
        if dice.one_in(3) {
            push(&format!("impersonate-extra-{}", dice.pick(&KEYS)), dice.pick(&GROUPS));
        }
    }
    if dice.one_in(4) {
        push("impersonate-uid", dice.pick(&[&b"1"[..], b"1", b"", b"2"]));
    }
    if dice.one_in(30) {
        push(dice.pick(&OTHERS), b"x");
    }
    if dice.one_in(300) {
        for number in 0..70 {
            push("impersonate-group", format!("g{number}").as_bytes());
        }
    }
    headers
}

const USERS: [&str; 6] = ["bob", "Zoë", "system:serviceaccount:ns:sa", "a,b: c=%41", "system:node:n", "*"];
const TOLD_GROUPS: [&str; 6] = ["g", "h i", "a,b", "system:masters", "system:unauthenticated", "größe"];
const EXTRA_KEYS: [&str; 10] = [
    "scopes",
    "example.com/team",
    "100%",
    "a b",
    "ü",
    "%41",
    "A",
    "Example.com/Team",
    "authentication.kubernetes.io/pod-name",
    "!#$&'*+-.^_`|~(),/:;<=>?@[\\]{}\"",
];

/// A user that an authenticator could return.
pub fn user(dice: &mut Dice) -> UserInfo {
    let some =
        |dice: &mut Dice, list: &[&str]| (0..dice.below(3)).map(|_| dice.pick(list).to_owned()).collect::<Vec<_>>();
    let name = dice.pick(&USERS).to_owned();
    let uid = dice.pick(&["", "", "1", "a/b"]).to_owned();
    let groups = some(dice, &TOLD_GROUPS);
    let mut keys = some(dice, &EXTRA_KEYS);
    keys.sort_unstable();
    keys.dedup();
    let extra = keys
        .into_iter()
        .map(|key| Extra { key, values: vec![dice.pick(&TOLD_GROUPS).to_owned(), "second".to_owned()] })
        .collect();
    UserInfo::authenticated(name, uid, groups, extra)
}
