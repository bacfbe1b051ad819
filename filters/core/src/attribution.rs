//! Extras for the upstream's audit log about what it cannot see by itself: the client's address, the gateway's request id, and
//! the user who impersonates. They are the gateway's own: a client that sends one is refused.

use crate::header_scan::HeaderScan;
use crate::identity::UserInfo;
use crate::upstream_user::HeaderNames;
use crate::upstream_user::header_value;

/// The keys, for each of which the gateway needs leave (`userextras/<key>`).
pub const KEYS: [&str; 3] = [CLIENT_ADDRESS, ORIGINAL_USER, REQUEST_ID];

const CLIENT_ADDRESS: &str = "portcullis.dev/client-address";
const ORIGINAL_USER: &str = "portcullis.dev/original-user";
const REQUEST_ID: &str = "portcullis.dev/request-id";

/// The lines of a request; `original` is the user who impersonates. A value that no header can carry unchanged is left out:
/// these lines are for people to read and grant nothing.
pub(crate) fn lines(names: &HeaderNames, scan: &HeaderScan<'_>, original: Option<&UserInfo>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap_or_default().to_owned();
    let lines = [
        (CLIENT_ADDRESS, text(scan.client_address())),
        (ORIGINAL_USER, original.map_or_else(String::new, |user| user.name.clone())),
        (REQUEST_ID, text(scan.request_id)),
    ];
    let line = |(key, value): (&str, String)| Some((names.extra(key), header_value("attribution", &value).ok()?));
    lines.into_iter().filter_map(line).collect()
}
