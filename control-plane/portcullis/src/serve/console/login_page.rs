use super::access::Denied;
use super::html::Html;

/// The longest path to which a login leads.
const MAX_PATH: usize = 2_048;

/// The form for a token. `to` is the page that was asked for.
pub(super) fn form(html: &mut Html, denied: Denied, to: &str) {
    html.raw("<div class=\"login\">\n<h1>Log in</h1>\n");
    if denied != Denied::LoginRequired {
        html.raw("<p class=\"notice critical\" role=\"alert\">").raw(message(denied)).raw("</p>\n");
    }
    html.raw("<form method=\"post\" action=\"/ui/login\">\n<input type=\"hidden\" name=\"to\"");
    html.attribute("value", own_path(to)).raw(">\n");
    html.raw("<div class=\"field\"><label for=\"token\">Token</label>\n<p id=\"about\" class=\"hint\">A token of the Kubernetes API that stores the objects, for example of <code>kubectl create token NAME</code>. It is exchanged for a session that ends with the token, and is reviewed again every minute.</p>\n");
    html.raw("<input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"off\" spellcheck=\"false\" maxlength=\"16384\" required aria-describedby=\"about\"></div>\n");
    html.raw("<button class=\"primary\">Log in</button>\n</form>\n<p class=\"hint\">Came from another page and logged in already? <a href=\"");
    html.text(own_path(to)).raw("\">Go on</a>.</p>\n</div>\n");
}

/// The reason for which a page is not shown.
pub(super) fn refusal(html: &mut Html, denied: Denied) {
    html.raw("<div class=\"login\">\n<h1>Not shown</h1>\n<p class=\"notice critical\" role=\"alert\">")
        .raw(message(denied));
    html.raw("</p>\n<p><a href=\"/ui/\">Fleet</a></p>\n</div>\n");
}

/// The path, if it is one of the console's pages, else the first page's: no login leads to another site.
pub(super) fn own_path(to: &str) -> &str {
    let is_plain = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_page = to.starts_with("/ui/") && !to.starts_with("/ui/api/") && !to.starts_with("/ui/log");
    if is_plain && is_page && to.len() <= MAX_PATH { to } else { "/ui/" }
}

/// A sentence for people.
pub(super) const fn message(denied: Denied) -> &'static str {
    match denied {
        Denied::LoginRequired => "A login is needed.",
        Denied::BadCredential => "The token is not valid, or has expired.",
        Denied::Plaintext => {
            "Tokens are taken over TLS only: use https (--http-tls-cert, --http-tls-key), or kubectl port-forward. Behind a proxy that ends TLS, start with --http-behind-tls-proxy."
        }
        Denied::Impossible => {
            "This address is not loopback, and there is no login: objects of a directory are shown on loopback only, or to client certificates of --http-client-ca."
        }
        Denied::Forbidden => {
            "You may not see this: the right to get or list upstreamclusters.proxy.kubegateway.io, or to get the Instance, is missing."
        }
        Denied::OtherOrigin => "Another site's page sent this request.",
        Denied::TooMany => "Too many attempts: try again in some seconds.",
        Denied::Full => "There are too many sessions: try again later.",
        Denied::Unavailable => "The Kubernetes API cannot review credentials now: try again later.",
    }
}

#[cfg(test)]
mod tests {
    use super::own_path;

    #[test]
    fn login_leads_to_pages_of_the_console_only() {
        for path in ["/ui/", "/ui/clusters/%2A.a.test?x=1", "/ui/explain"] {
            assert_eq!(own_path(path), path);
        }
        for path in [
            "",
            "https://attacker.test/ui/",
            "//attacker.test",
            "/ui",
            "/\\attacker.test",
            "/ui/\\a",
            "/status",
            "/ui/\r\nX: y",
            "/ui/api/fleet",
            "/ui/login",
        ] {
            assert_eq!(own_path(path), "/ui/", "{path}");
        }
    }
}
