//! A user as header lines for the upstream.

use std::sync::{LazyLock, OnceLock};

use portcullis_filter_config::RequestHeaders;

use crate::identity::{ANONYMOUS, AUTHENTICATED, RESERVED, UNAUTHENTICATED, UserInfo, is_reserved};
use crate::policy::{Policies, UserMatchCache};
use crate::request_info::RequestInfo;
use crate::user_digest::UserDigest;

/// The most groups and extra values of a user.
const MAX_LINES: usize = 256;

/// Maximum number of bytes of a user's lines. kube-apiserver takes more, but the owner of an upstream chooses its users' names,
/// and they are kept in memory.
const MAX_BYTES: usize = 64 * 1024;
/// Bytes that a user takes beside its texts: itself, and each line with two texts, the text that it is made of, and their
/// allocations.
const PER_USER: usize = 360;
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
#[derive(Debug)]
pub struct UpstreamUser {
    user: UserInfo,
    lines: Vec<(String, String)>,
    memo: UserMatchCache,
    digest: OnceLock<UserDigest>,
    bytes: u64,
}

/// Without what is remembered of the user.
impl PartialEq for UpstreamUser {
    fn eq(&self, other: &Self) -> bool {
        (&self.user, &self.lines) == (&other.user, &other.lines)
    }
}

impl Eq for UpstreamUser {}

impl UpstreamUser {
    /// Writes the `Impersonate-*` lines ([`UpstreamUser::with_header_names`]).
    ///
    /// # Errors
    /// [`IdentityError`]: the credential's fault; another credential may do.
    pub fn new(user: UserInfo) -> Result<Self, IdentityError> {
        static NAMES: LazyLock<HeaderNames> = LazyLock::new(HeaderNames::impersonate);
        UpstreamUser::with_header_names(&NAMES, user)
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
        let bytes = texts.chain([size, size, UserMatchCache::most_bytes(&user)]).fold(PER_USER, usize::saturating_add);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        Ok(UpstreamUser { user, lines, memo: UserMatchCache::default(), digest: OnceLock::new(), bytes })
    }

    /// Memory that the user takes, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The user.
    pub fn user(&self) -> &UserInfo {
        &self.user
    }

    /// The user's digest, made when it is asked for first.
    pub(crate) fn digest(&self) -> UserDigest {
        *self.digest.get_or_init(|| UserDigest::of(&self.user))
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
mod tests;
