//! A user as header lines for the upstream.

use portcullis_filter_config::RequestHeaders;

use crate::identity::{ANONYMOUS, AUTHENTICATED, RESERVED, UNAUTHENTICATED, UserInfo, is_reserved};
use crate::policy::{Policies, UserMatchCache};
use crate::request_info::RequestInfo;

/// The most groups and extra values of a user.
const MAX_LINES: usize = 256;

/// Maximum number of bytes of a user's lines. kube-apiserver takes more, but the owner of an upstream chooses its users' names,
/// and they are kept in memory.
const MAX_BYTES: usize = 64 * 1024;
/// Bytes that a user takes beside its texts: itself, and each line with two texts, the text that it is made of, and their
/// allocations.
const PER_USER: usize = 320;
const PER_LINE: usize = 144;

/// A user that HTTP cannot carry unchanged. Changed it would be another user, so it is refused, never repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Without a name the upstream would act as the gateway itself.
    #[error("the user has no name")]
    NoName,
    /// Blanks at either end would be trimmed, control characters split the line.
    #[error("a {0} of the user has blanks at an end or control characters")]
    Unprintable(&'static str),
    /// Each group and extra is a header line, and each is authorised on its own by the upstream.
    #[error("the user has more than {MAX_LINES} groups and extra values")]
    TooMany,
    /// No kube-apiserver that this gateway is made for would take the headers.
    #[error("the user is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// The gateway's own extras say who really sent a request.
    #[error("the user has an extra key that starts with {RESERVED}")]
    Reserved,
    /// An empty value would be dropped on the way.
    #[error("a {0} of the user is empty")]
    Empty(&'static str),
}

/// The header names for users, lower-case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeaderNames {
    user: Box<str>,
    group: Box<str>,
    /// `None` if the UID is not sent.
    uid: Option<Box<str>>,
    extra_prefix: Box<str>,
}

impl HeaderNames {
    /// `Impersonate-*`.
    pub fn impersonate() -> Self {
        HeaderNames {
            user: "impersonate-user".into(),
            group: "impersonate-group".into(),
            uid: Some("impersonate-uid".into()),
            extra_prefix: "impersonate-extra-".into(),
        }
    }

    /// Those of an authenticating proxy.
    pub fn from_config(names: &RequestHeaders) -> Self {
        HeaderNames {
            user: (*names.user).into(),
            group: (*names.group).into(),
            uid: (!names.uid.is_empty()).then(|| (*names.uid).into()),
            extra_prefix: (*names.extra_prefix).into(),
        }
    }

    /// The header of the user name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// All names, the prefix of extras among them.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        [&self.user, &self.group, &self.extra_prefix].into_iter().chain(&self.uid).map(|name| &**name)
    }

    /// The header of an extra attribute: key escaping is client-go's (client-go, `transport/round_trippers.go`).
    pub(crate) fn extra(&self, key: &str) -> String {
        format!("{}{}", self.extra_prefix, escape_key(key))
    }
}

/// A user with its header lines for the upstream, made once.
#[derive(Debug, PartialEq, Eq)]
pub struct UpstreamUser {
    user: UserInfo,
    lines: Vec<(String, String)>,
    memo: UserMatchCache,
    bytes: u64,
}

impl UpstreamUser {
    /// Writes the `Impersonate-*` lines ([`UpstreamUser::with_header_names`]).
    ///
    /// # Errors
    /// [`IdentityError`]: the credential's fault; another credential may do.
    pub fn new(user: UserInfo) -> Result<Self, IdentityError> {
        UpstreamUser::with_header_names(&HeaderNames::impersonate(), user)
    }

    /// Writes the lines: user, UID if there is one, one line per group but the one that kube-apiserver adds by itself, one per extra
    /// value.
    ///
    /// # Errors
    /// [`IdentityError`]: the credential's fault; another credential may do.
    pub fn with_header_names(names: &HeaderNames, user: UserInfo) -> Result<Self, IdentityError> {
        if user.name.is_empty() {
            return Err(IdentityError::NoName);
        }
        let size = user.size();
        if size > MAX_BYTES {
            return Err(IdentityError::TooLarge);
        }
        let extras: usize = user.extra.iter().map(|extra| extra.values.len()).sum();
        if user.groups.len().saturating_add(extras) > MAX_LINES {
            return Err(IdentityError::TooMany);
        }
        let mut lines = Vec::with_capacity(user.groups.len().saturating_add(user.extra.len()).saturating_add(2));
        lines.push((names.user.to_string(), header_value("name", &user.name)?));
        if let Some(name) = names.uid.as_deref().filter(|_| !user.uid.is_empty()) {
            lines.push((name.to_owned(), header_value("UID", &user.uid)?));
        }
        for group in sent_groups(&user) {
            lines.push((names.group.to_string(), header_value("group", group)?));
        }
        for extra in &user.extra {
            if extra.key.is_empty() {
                return Err(IdentityError::Empty("extra key"));
            }
            if is_reserved(extra.key.as_bytes()) {
                return Err(IdentityError::Reserved);
            }
            let name = names.extra(&extra.key);
            for value in &extra.values {
                lines.push((name.clone(), header_value("extra value", value)?));
            }
        }
        // The texts twice, names of headers, and what each text and list takes beside its letters.
        let texts = lines.iter().map(|(name, _)| name.len().saturating_add(PER_LINE));
        let bytes = texts.fold(size.saturating_mul(2).saturating_add(PER_USER), usize::saturating_add);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        Ok(UpstreamUser { user, lines, memo: UserMatchCache::default(), bytes })
    }

    /// Memory that the user takes, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The user.
    pub fn user(&self) -> &UserInfo {
        &self.user
    }

    /// The first policy that a request of the user matches ([`Policies::first_match`]).
    pub(crate) fn first_match(&self, policies: &Policies, info: &RequestInfo<'_>) -> Option<usize> {
        policies.first_match_of(info, &self.user, &self.memo)
    }

    /// Header names, lower-case, and values.
    pub fn header_lines(&self) -> &[(String, String)] {
        &self.lines
    }
}

/// The groups that are sent: without `system:authenticated` at the end, which kube-apiserver adds there to users of other groups
/// (apiserver, `pkg/endpoints/filters/impersonation.go`, `pkg/authentication/group/authenticated_group_adder.go`). A line less to carry
/// and to authorise. It adds it to neither `system:anonymous` nor users of `system:unauthenticated`, and a service account without any
/// line would get the groups of one.
fn sent_groups(user: &UserInfo) -> &[String] {
    let has = |groups: &[String], name: &str| groups.iter().any(|group| group == name);
    match user.groups.split_last() {
        Some((last, others))
            if last == AUTHENTICATED
                && !others.is_empty()
                && user.name != ANONYMOUS
                && !has(others, AUTHENTICATED)
                && !has(others, UNAUTHENTICATED) =>
        {
            others
        }
        _ => &user.groups,
    }
}

pub(crate) fn header_value(part: &'static str, value: &str) -> Result<String, IdentityError> {
    if value.is_empty() {
        return Err(IdentityError::Empty(part));
    }
    let is_blank_ended = value.starts_with(' ') || value.ends_with(' ');
    if is_blank_ended || value.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err(IdentityError::Unprintable(part));
    }
    Ok(value.to_owned())
}

/// Bytes that are not possible in a header's name, and the percent sign, become `%XX`, as client-go writes them. Names are
/// lower-case on the wire, and kube-apiserver lowers a key before it decodes it, so an upper-case letter is escaped, too: the
/// upstream reads the very key.
fn escape_key(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        let is_plain = byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$&'*+-.^_`|~".contains(&byte);
        if is_plain {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02x}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Extra;

    fn user(name: &str, groups: &[&str], extra: &[(&str, &str)]) -> UserInfo {
        let extra = extra.iter().map(|(key, value)| Extra { key: (*key).into(), values: vec![(*value).into()] });
        UserInfo::authenticated(
            name.into(),
            String::new(),
            groups.iter().map(|g| (*g).into()).collect(),
            extra.collect(),
        )
    }

    #[test]
    fn user_becomes_one_line_for_each_part() {
        let user = UpstreamUser::new(UserInfo {
            uid: "42".into(),
            ..user("alice", &["dev", "a,b"], &[("example.com/Zone", "x"), ("100%", "y")])
        })
        .unwrap();
        let lines: Vec<_> = user.header_lines().iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            lines,
            [
                "impersonate-user: alice",
                "impersonate-uid: 42",
                "impersonate-group: dev",
                "impersonate-group: a,b",
                "impersonate-extra-example.com%2f%5aone: x",
                "impersonate-extra-100%25: y",
            ]
        );
    }

    #[test]
    fn authenticating_proxy_tells_by_its_own_names() {
        let names = RequestHeaders { uid: String::new(), user: "x-auth-user".into(), ..RequestHeaders::default() };
        let alice = UserInfo { uid: "42".into(), ..user("alice", &["dev"], &[("example.com/Zone", "x")]) };
        let lines = |names: &RequestHeaders| -> Vec<String> {
            let user = UpstreamUser::with_header_names(&HeaderNames::from_config(names), alice.clone()).unwrap();
            user.header_lines().iter().map(|(name, value)| format!("{name}: {value}")).collect()
        };
        let (group, extra) = ("x-remote-group: dev", "x-remote-extra-example.com%2f%5aone: x");
        assert_eq!(lines(&names), ["x-auth-user: alice", group, extra]);
        let usual = RequestHeaders::default();
        assert_eq!(lines(&usual), ["x-remote-user: alice", "x-remote-uid: 42", group, extra]);
    }

    #[test]
    fn authenticated_group_is_sent_where_no_server_adds_it() {
        let sent = |name: &str, groups: &[&str]| -> Vec<String> {
            let user =
                UserInfo { groups: groups.iter().map(|group| (*group).to_owned()).collect(), ..user(name, &[], &[]) };
            let user = UpstreamUser::new(user).unwrap();
            let groups = user.header_lines().iter().filter(|(name, _)| name == "impersonate-group");
            groups.map(|(_, group)| group.clone()).collect()
        };
        let (yes, no) = ("system:authenticated", "system:unauthenticated");
        assert_eq!(sent("a", &["g", yes]), ["g"]);
        // Alone it keeps a service account from getting the groups of one.
        assert_eq!(sent("system:serviceaccount:ns:sa", &[yes]), [yes]);
        assert_eq!(sent("system:anonymous", &["g", yes]), ["g", yes]);
        assert_eq!(sent("a", &[no, yes]), [no, yes]);
        assert_eq!(sent("a", &[yes, "g"]), [yes, "g"]);
        assert_eq!(sent("a", &["g", yes, yes]), ["g", yes, yes]);
        assert!(sent("a", &[]).is_empty());
    }

    /// The groups that kube-apiserver finds in lines of either mode.
    fn upstream_groups(name: &str, lines: &[(String, String)], is_impersonated: bool) -> Vec<String> {
        let of = |(header, value): &(String, String)| header.ends_with("-group").then(|| value.clone());
        let mut groups: Vec<String> = lines.iter().filter_map(of).collect();
        let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        if let Some((namespace, _)) = account.filter(|_| is_impersonated && groups.is_empty()) {
            groups.extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
        }
        let has = |group: &str| groups.iter().any(|one| one == group);
        if name == "system:anonymous" {
            let is_added = is_impersonated && !has("system:unauthenticated");
            groups.extend(is_added.then(|| "system:unauthenticated".to_owned()));
        } else if !has("system:authenticated") && !has("system:unauthenticated") {
            groups.push("system:authenticated".to_owned());
        }
        groups
    }

    proptest::proptest! {
        #[test]
        fn kube_apiserver_finds_the_groups_that_the_user_has(
            name in proptest::sample::select(vec!["a", "system:anonymous", "system:serviceaccount:ns:sa", "system:node:n"]),
            groups in proptest::collection::vec(
                proptest::sample::select(vec!["g", "h", "system:authenticated", "system:unauthenticated", "system:nodes"]),
                0..5,
            ),
        ) {
            let groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
            let user = UserInfo::authenticated(name.to_owned(), String::new(), groups, Vec::new());
            for (names, is_impersonated) in [
                (HeaderNames::impersonate(), true),
                (HeaderNames::from_config(&RequestHeaders::default()), false),
            ] {
                let sent = UpstreamUser::with_header_names(&names, user.clone()).unwrap();
                let found = upstream_groups(name, sent.header_lines(), is_impersonated);
                // The impersonated anonymous user has that group besides, with whatever lines.
                let is_anonymous = is_impersonated && name == "system:anonymous";
                let expected = user.groups.iter().filter(|group| !is_anonymous || *group != "system:unauthenticated");
                let found = found.iter().filter(|group| !is_anonymous || *group != "system:unauthenticated");
                proptest::prop_assert!(found.eq(expected), "{user:?}: {:?}", sent.header_lines());
            }
        }
    }

    #[test]
    fn value_that_http_would_change_is_refused() {
        let refused = [
            user("", &[], &[]),
            user(" alice", &[], &[]),
            user("alice ", &[], &[]),
            user("al\r\nice", &[], &[]),
            user("al\0ice", &[], &[]),
            user("al\tice", &[], &[]),
            user("alice", &[" system:masters"], &[]),
            user("alice", &[""], &[]),
            user("alice", &[], &[("", "x")]),
            user("alice", &[], &[("k", " x")]),
            user("alice", &[], &[("portcullis.dev/original-user", "bob")]),
            user("alice", &[], &[("Portcullis.dev/x", "y")]),
        ];
        for user in refused {
            assert!(UpstreamUser::new(user.clone()).is_err(), "{user:?}");
        }
        assert!(UpstreamUser::new(user("alice", &["g"; 255], &[])).is_ok());
        assert_eq!(UpstreamUser::new(user("alice", &["g"; 256], &[])), Err(IdentityError::TooMany));
        assert_eq!(UpstreamUser::new(user(&"a".repeat(1 << 16), &[], &[])), Err(IdentityError::TooLarge));
        let key = "k".repeat(1 << 15);
        let many = UserInfo { extra: vec![Extra { key, values: vec!["v".to_owned(); 2] }], ..user("a", &[], &[]) };
        assert_eq!(UpstreamUser::new(many), Err(IdentityError::TooLarge));
        assert!(UpstreamUser::new(user("Zoë van der A", &["größe"], &[])).is_ok());
    }

    #[test]
    fn authenticated_group_is_added_as_kube_apiserver_does() {
        assert_eq!(user("a", &["g"], &[]).groups, ["g", "system:authenticated"]);
        assert_eq!(user("a", &["system:authenticated", "g"], &[]).groups, ["system:authenticated", "g"]);
        assert_eq!(user("a", &["system:unauthenticated"], &[]).groups, ["system:unauthenticated"]);
        assert!(user("system:anonymous", &[], &[]).groups.is_empty());
    }

    #[test]
    fn service_accounts_are_told_by_their_names() {
        let parts = |name: &str| {
            let user = user(name, &[], &[]);
            user.service_account().map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
        };
        assert_eq!(parts("system:serviceaccount:ns:sa"), Some(("ns".into(), "sa".into())));
        for other in [
            "system:serviceaccount:ns:",
            "system:serviceaccount::sa",
            "system:serviceaccount:a:b:c",
            "system:serviceaccount:NS:sa",
            "ns:sa",
        ] {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    /// Counted by hand: the user's texts twice, with a line for each.
    #[test]
    fn user_weighs_what_it_takes() {
        let bytes = |groups: usize| {
            let groups = (0..groups).map(|number| format!("group-{number:04}")).collect();
            let user = UserInfo { name: "alice".into(), groups, ..UserInfo::default() };
            UpstreamUser::new(user).unwrap().bytes()
        };
        assert!((400..1_000).contains(&bytes(0)), "{}", bytes(0));
        let of_group = (bytes(200) - bytes(100)) / 100;
        assert!((100..400).contains(&of_group), "{of_group}");
    }
}
