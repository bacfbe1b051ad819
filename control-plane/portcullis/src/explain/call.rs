use crate::display_text::one_line;

/// A call of `portcullis explain` for one request, for a person to repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExplainCall {
    pub(crate) host: String,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) user: Option<String>,
    pub(crate) groups: Vec<String>,
    /// As whom the user acts.
    pub(crate) impersonated: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
}

impl ExplainCall {
    /// The words behind `portcullis explain -f FILES`.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![self.method.clone(), self.target.clone(), "--host".to_owned(), self.host.clone()];
        let mut flag = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
        if let Some(user) = &self.user {
            flag("--user", user);
            self.groups.iter().for_each(|group| flag("--group", group));
        }
        for (name, value) in &self.headers {
            flag("--header", &format!("{name}: {value}"));
        }
        if let Some(user) = &self.impersonated {
            flag("--header", &format!("Impersonate-User: {user}"));
            flag("--impersonation", "allow");
        }
        words
    }

    /// The call, quoted for a shell and safe to show on a terminal.
    pub(crate) fn shell(&self, files: &str) -> String {
        let words: Vec<String> = self.words().iter().map(|word| quoted(word)).collect();
        format!("portcullis explain -f {files} {}", words.join(" "))
    }
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,@%+=".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", one_line(word).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_is_quoted_for_a_shell() {
        let call = ExplainCall {
            host: "a.test".to_owned(),
            method: "GET".to_owned(),
            target: "/api/v1/pods?watch=true".to_owned(),
            user: Some("it's me".to_owned()),
            groups: vec!["a b".to_owned(), "\u{1b}[2J".to_owned()],
            impersonated: Some("bob".to_owned()),
            headers: vec![("User-Agent".to_owned(), "kubectl".to_owned())],
        };
        let expected = "portcullis explain -f new/ GET '/api/v1/pods?watch=true' --host a.test --user 'it'\\''s me' \
                        --group 'a b' --group '\u{fffd}[2J' --header 'User-Agent: kubectl' \
                        --header 'Impersonate-User: bob' --impersonation allow";
        assert_eq!(call.shell("new/"), expected);
    }
}
