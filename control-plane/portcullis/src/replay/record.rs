use std::borrow::Cow;

use serde::Deserialize;

/// The longest line that is read. The gateway's own are far shorter.
pub(super) const MAX_LINE: usize = 256 * 1024;

/// Bounds of the gateway's lines, in characters: what is longer ends in `…`.
pub(super) const PATH: usize = 1_024;
pub(super) const NAME: usize = 253;
pub(super) const VERB: usize = 32;
pub(super) const USER: usize = 256;

/// The members of a line of the access log that a judgement needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LogRecord<'l> {
    #[serde(borrow)]
    pub(super) time: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) client: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) cluster: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) method: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) path: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) verb: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) api_group: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) api_version: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) resource: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) subresource: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) namespace: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) name: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) user: Cow<'l, str>,
    pub(super) groups: Vec<String>,
    pub(super) more_groups: u64,
    #[serde(borrow)]
    pub(super) impersonated_user: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) user_agent: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) request_id: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) policy: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) schema: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) server_group: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) decision: Cow<'l, str>,
    #[serde(borrow)]
    pub(super) reason: Cow<'l, str>,
}

impl<'l> LogRecord<'l> {
    /// Reads a line; `None` if it is none of the gateway's.
    pub(super) fn read(line: &'l [u8]) -> Option<Self> {
        let record: Self = serde_json::from_slice(line).ok()?;
        (!record.decision.is_empty()).then_some(record)
    }

    /// Bytes of what an example of the line has, at most.
    pub(super) fn bytes(&self) -> usize {
        let LogRecord { time, client, method, path, verb, user, impersonated_user, user_agent, .. } = self;
        let texts = [time, client, method, path, verb, user, impersonated_user, user_agent];
        let groups = self.groups.iter().map(|group| group.len().saturating_add(size_of::<String>()));
        texts.into_iter().map(|text| text.len()).chain(groups).fold(0, usize::saturating_add)
    }
}

/// The part of a text that the log has, if the text is cut.
pub(super) fn cut(text: &str, most: usize) -> Option<&str> {
    // Most texts are shorter in bytes already.
    let kept = text.strip_suffix('…').filter(|_| text.len() > most)?;
    (kept.chars().count() == most).then_some(kept)
}

/// Whether the log writes this value so.
pub(super) fn is_written(value: &[u8], logged: &str, most: usize) -> bool {
    if value == logged.as_bytes() {
        return true;
    }
    let value = String::from_utf8_lossy(value);
    value == logged || cut(logged, most).is_some_and(|kept| value.starts_with(kept))
}
