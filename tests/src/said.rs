//! The text that an error lets out.

/// Everything that an error says, its `Debug` and its sources included.
#[must_use]
pub fn everything(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(" {error} {error:?}");
        source = error.source();
    }
    text
}
