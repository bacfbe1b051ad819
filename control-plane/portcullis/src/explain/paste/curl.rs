use super::{PasteError, PastedRequest};

/// Options of curl whose value is the next word, and that say nothing about the request.
const WITH_VALUE: [&str; 18] = [
    "-o",
    "--output",
    "--cacert",
    "--cert",
    "-E",
    "--key",
    "--resolve",
    "--connect-to",
    "-m",
    "--max-time",
    "-w",
    "--write-out",
    "--connect-timeout",
    "--retry",
    "-x",
    "--proxy",
    "-A",
    "--user-agent",
];

/// The command in a text, from `curl` on.
pub(super) fn command(text: &str) -> Option<&str> {
    let line = text.lines().position(|line| line.trim_start().starts_with("curl "))?;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    text.get(start..).map(str::trim_start)
}

/// Reads a command as a shell would split it.
pub(super) fn read(command: &str) -> Result<PastedRequest, PasteError> {
    let mut words = words(command).into_iter().skip(1);
    let mut request = PastedRequest::default();
    let (mut method, mut has_body, mut url) = (None, false, None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-X" | "--request" => method = words.next(),
            "-H" | "--header" => add_header(&mut request, words.next()),
            "-d" | "--data" | "--data-raw" | "--data-binary" | "--json" | "-F" | "--form" => {
                words.next();
                has_body = true;
            }
            "-I" | "--head" => method = Some("HEAD".to_owned()),
            "-u" | "--user" | "--oauth2-bearer" => {
                words.next();
                request.has_token = true;
            }
            "--url" => url = words.next(),
            option if WITH_VALUE.contains(&option) => drop(words.next()),
            option if option.starts_with("-X") => method = option.get(2..).map(str::to_owned),
            option if option.starts_with("-H") => add_header(&mut request, option.get(2..).map(str::to_owned)),
            option if option.starts_with('-') => {}
            _ if url.is_none() => url = Some(word),
            _ => {}
        }
    }
    let url = url.ok_or(PasteError::Curl)?;
    let of_body = if has_body { "POST" } else { "GET" };
    request.method = method.unwrap_or_else(|| of_body.to_owned()).to_ascii_uppercase();
    let host = request.host.take();
    request.set_url(&if url.contains("://") || url.starts_with('/') { url } else { format!("https://{url}") });
    request.host = host.or(request.host);
    Ok(request)
}

fn add_header(request: &mut PastedRequest, header: Option<String>) {
    if let Some((name, value)) = header.as_deref().and_then(|header| header.split_once(':')) {
        request.add_header(name.trim(), value.trim());
    }
}

/// The words of the first command of a text: quotes, backslashes and continued lines as in a shell.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = command.chars();
    while let Some(one) = characters.next() {
        match (quote, one) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(one);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => match characters.next() {
                Some('\n') | None => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            (None, '\n' | ';' | '|' | '>' | '&') => break,
            (None, space) if space.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(one),
        }
    }
    words.extend(word);
    words
}
