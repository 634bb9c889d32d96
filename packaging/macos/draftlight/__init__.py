"""The module that Briefcase starts in the application for macOS. The program itself is in the wheel, among the packages."""
