//! `portcullis probe`: asks a page of `serve` or `agent`, for health checks of images that have neither a shell nor an HTTP client.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use portcullis_api::parse_duration;

use crate::http_client::{HttpError, ResponseLimits, request};
use crate::runtime::{RuntimeError, Threads, runtime};

/// The longest reason that is printed.
const MAX_BYTES: usize = 64 << 10;

/// Ask /readyz or /healthz of `serve` or `agent`, for the health check of a container.
///
///   portcullis probe http://127.0.0.1:9081/readyz
///
/// Exit: 0 if the answer is 2xx, 1 with the page's reason on standard error otherwise, 2 for a wrong command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Probe {
    /// http://HOST:PORT/PATH; plain HTTP, which both commands answer on these pages in any case.
    #[arg(value_name = "URL", value_parser = parse)]
    page: Page,
    /// Time limit of the whole.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    timeout: Duration,
}

/// The parts of the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    address: String,
    path: String,
}

fn parse(text: &str) -> Result<Page, String> {
    let rest = text.strip_prefix("http://").ok_or("it does not begin with http://")?;
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(_))) {
        return Err("it has no port, as in http://127.0.0.1:9081/readyz".to_owned());
    }
    Ok(Page { address: address.to_owned(), path: format!("/{path}") })
}

/// Why a page is not known to be good.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("{0}: {1}")]
    Unready(hyper::StatusCode, String),
}

pub(crate) fn run(arguments: &Probe) -> ExitCode {
    match ask(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(&error),
    }
}

fn ask(arguments: &Probe) -> Result<(), ProbeError> {
    let limits = ResponseLimits { time: arguments.timeout, bytes: MAX_BYTES };
    let page = &arguments.page;
    let exchange = request(&page.address, Method::GET, &page.path, limits);
    let (status, body) = runtime(Threads::Current)?.block_on(exchange)?;
    if status.is_success() {
        return Ok(());
    }
    Err(ProbeError::Unready(status, String::from_utf8_lossy(&body).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_a_url_with_a_port() {
        let page = |address: &str, path: &str| Ok(Page { address: address.to_owned(), path: path.to_owned() });
        assert_eq!(parse("http://127.0.0.1:9081/readyz"), page("127.0.0.1:9081", "/readyz"));
        assert_eq!(parse("http://[::1]:9081"), page("[::1]:9081", "/"));
        for wrong in
            ["https://127.0.0.1:9081/readyz", "127.0.0.1:9081/readyz", "http://127.0.0.1/readyz", "http://a:b/"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
