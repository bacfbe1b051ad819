//! A request in a form that people have at hand: a request line with or without headers, what `kubectl -v=8` prints, a `curl`
//! command, or a line of the gateway's access log. Pure, and bounded by the length of the text.

mod curl;
mod log_line;

/// The longest text that is read, in bytes.
const MAX_TEXT: usize = 16_384;
/// The number of headers that are read.
const MAX_HEADERS: usize = 128;
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The request of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PastedRequest {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// The host, without its port.
    pub(crate) host: Option<String>,
    /// Headers, without credentials.
    pub(crate) headers: Vec<(String, String)>,
    /// The cluster that a log line names.
    pub(crate) cluster: Option<String>,
    /// The user and the groups that a log line names.
    pub(crate) user: Option<String>,
    pub(crate) groups: Vec<String>,
    /// Whether the request has a bearer token, which is left out.
    pub(crate) has_token: bool,
    /// Remarks for the reader: parts that the text lacks or that are left out.
    pub(crate) notes: Vec<&'static str>,
}

/// The reason for which a text is no request; its writer's fault.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PasteError {
    #[error("the text is empty")]
    Empty,
    #[error("the text is longer than {MAX_TEXT} bytes")]
    TooLong,
    #[error("the log line is not JSON, or has no method and path")]
    LogLine,
    #[error("the curl command has no URL")]
    Curl,
    #[error(
        "no request is found: paste a line such as GET /api/v1/pods, lines of kubectl -v=8, a curl command, or a line of the access log"
    )]
    NoRequest,
}

/// Reads the first request of a text.
///
/// # Errors
/// [`PasteError`].
pub(crate) fn read(text: &str) -> Result<PastedRequest, PasteError> {
    if text.len() > MAX_TEXT {
        return Err(PasteError::TooLong);
    }
    let text = text.trim();
    if text.is_empty() {
        return Err(PasteError::Empty);
    }
    if text.starts_with('{') {
        return log_line::read(text);
    }
    if let Some(command) = curl::command(text) {
        return curl::read(command);
    }
    of_lines(text)
}

/// A request line, or a line of kubectl, with the headers behind it.
fn of_lines(text: &str) -> Result<PastedRequest, PasteError> {
    let mut lines = text.lines();
    let (method, url) = lines.by_ref().find_map(request_of_line).ok_or(PasteError::NoRequest)?;
    let mut request = PastedRequest { method, ..PastedRequest::default() };
    request.set_url(&url);
    for line in lines {
        if request_of_line(line).is_some() {
            request.notes.push("The text holds several requests: the first one is explained.");
            break;
        }
        if let Some((name, value)) = header_of_line(line) {
            request.add_header(name, value);
        }
    }
    Ok(request)
}

/// `GET /path`, `... "Request" verb="GET" url="https://..."`, or `round_trippers.go:463] GET https://...`.
fn request_of_line(line: &str) -> Option<(String, String)> {
    if let (Some(verb), Some(url)) = (quoted(line, "verb="), quoted(line, "url=")) {
        // kubectl's line about the response repeats both.
        return line.contains("\"Request\"").then_some((verb.to_ascii_uppercase(), url.to_owned()));
    }
    let line = line.split_once("] ").map_or(line, |(_, rest)| rest).trim_start();
    let mut words = line.split_ascii_whitespace();
    let (method, url) = (words.next()?, words.next()?);
    let is_request = METHODS.contains(&method) && (url.starts_with('/') || url.contains("://"));
    is_request.then(|| (method.to_owned(), url.to_owned()))
}

/// The value of `name="value"` in a line.
fn quoted<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(name)?;
    rest.strip_prefix('"')?.split('"').next()
}

/// `Name: value`, also behind the head that older kubectls write before each line.
fn header_of_line(line: &str) -> Option<(&str, &str)> {
    let line = line.split_once("] ").map_or(line, |(_, rest)| rest).trim();
    let (name, value) = line.split_once(':')?;
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    // "Request Headers:" and "Response Status: 200 OK" are kubectl's own words.
    is_name(name).then(|| (name, value.trim()))
}

impl PastedRequest {
    /// Takes a URL, or a path with its query.
    fn set_url(&mut self, url: &str) {
        let Some((_, rest)) = url.split_once("://") else {
            self.target = url.to_owned();
            return;
        };
        let (authority, target) = rest.find(['/', '?']).map_or((rest, "/"), |at| rest.split_at(at));
        self.target = if target.starts_with('?') { format!("/{target}") } else { target.to_owned() };
        self.set_host(authority.rsplit('@').next().unwrap_or(authority));
    }

    fn set_host(&mut self, authority: &str) {
        let without_port = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next(),
            None => authority.split(':').next(),
        };
        self.host = without_port.filter(|host| !host.is_empty()).map(str::to_owned);
    }

    /// Adds a header. Credentials are left out: nothing here reviews them, and the text is shown again.
    fn add_header(&mut self, name: &str, value: &str) {
        match name.to_ascii_lowercase().as_str() {
            "authorization" => self.has_token = true,
            "host" => self.set_host(value),
            "cookie" | "proxy-authorization" | "content-length" => {}
            _ if self.headers.len() < MAX_HEADERS => self.headers.push((name.to_owned(), value.to_owned())),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
