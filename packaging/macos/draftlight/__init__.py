"""What Briefcase starts in the application for macOS. The program itself is in the wheel, beside its packages."""
